-- Comma-separated values (RFC 4180): quoted fields, doubled quotes, line ends inside quotes.

local M = {}

-- One record from `at`: its fields, and where the next begins; nil at the end.
local function record(text, at)
  if at > #text then return nil end
  local fields = {}
  while true do
    local field
    if text:sub(at, at) == '"' then
      local parts = {}
      at = at + 1
      while true do
        local stop = text:find('"', at, true) or #text + 1
        parts[#parts + 1] = text:sub(at, stop - 1)
        at = stop + 1
        if text:sub(at, at) ~= '"' then break end
        parts[#parts + 1] = '"'
        at = at + 1
      end
      field = table.concat(parts)
    else
      local stop = text:find("[,\r\n]", at) or #text + 1
      field = text:sub(at, stop - 1)
      at = stop
    end
    fields[#fields + 1] = field
    local mark = text:sub(at, at)
    if mark ~= "," then
      return json.array(fields), text:sub(at, at + 1) == "\r\n" and at + 2 or at + 1
    end
    at = at + 1
  end
end

--- The names of the first line, up to `limit` records behind it, and how many there are in all.
function M.read(text, limit)
  local columns, at = record(text, text:sub(1, 3) == "\u{FEFF}" and 4 or 1)
  local rows, total = {}, 0
  while at and at <= #text do
    local fields
    fields, at = record(text, at)
    if fields and not (#fields == 1 and fields[1] == "") then
      total = total + 1
      if total <= limit then rows[total] = fields end
    end
  end
  return columns or json.array {}, rows, total
end

return M
