-- The data sets, and how they are searched: every word of the query must occur somewhere in one.

local M = {}

local function text_of(set)
  local parts = { set.name, set.description or "" }
  for _, column in ipairs(set.columns or {}) do parts[#parts + 1] = column end
  return table.concat(parts, " "):lower()
end

function M.search(sets, query)
  local found = {}
  for _, set in ipairs(sets) do
    local text, fits = text_of(set), true
    for word in query:lower():gmatch("%S+") do fits = fits and text:find(word, 1, true) ~= nil end
    if fits then found[#found + 1] = { name = set.name, description = set.description } end
  end
  return json.array(found)
end

function M.find(sets, name)
  for _, set in ipairs(sets) do
    if set.name == name then return set end
  end
end

return M
