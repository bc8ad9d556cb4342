-- Tables and views of an SQLite file as data sets.

local M = {}

-- A name as SQL takes it, whatever is in it.
local function quoted(name) return '"' .. name:gsub('"', '""') .. '"' end

--- All tables and views, with their columns and number of rows; nil and a message when the file cannot be read.
function M.sets(path)
  local found, why = sqlite.query(path, "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name")
  if not found then return nil, why end
  local file = path:match("[^/]+$")
  local all = {}
  for _, row in ipairs(found.rows) do
    local name, kind = row[1], row[2]
    local info = sqlite.query(path, "SELECT name FROM pragma_table_info(?)", { name })
    local count = sqlite.query(path, "SELECT count(*) FROM " .. quoted(name))
    local columns = {}
    for i, column in ipairs(info and info.rows or {}) do columns[i] = column[1] end
    local n = count and count.rows[1][1]
    all[#all + 1] = {
      name = name, columns = json.array(columns), table = name,
      description = n and ("%d %s, %s of %s"):format(n, n == 1 and "row" or "rows", kind, file) or ("%s of %s"):format(kind, file),
    }
  end
  return all
end

--- The first `limit` rows of a table as texts, and how many there are.
function M.rows(path, name, limit)
  local found = sqlite.query(path, "SELECT * FROM " .. quoted(name) .. " LIMIT ?", { limit })
  local count = sqlite.query(path, "SELECT count(*) FROM " .. quoted(name))
  local rows = {}
  for i, row in ipairs(found and found.rows or {}) do
    local cells = {}
    for k = 1, #found.columns do cells[k] = (row[k] == nil or row[k] == json.null) and "" or tostring(row[k]) end
    rows[i] = json.array(cells)
  end
  return rows, count and count.rows[1][1] or #rows
end

return M
