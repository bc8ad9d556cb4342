local M = {}

function M.of(name, loud)
  local text = "Hello, " .. name .. "!"
  return loud and text:upper() or text
end

return M
