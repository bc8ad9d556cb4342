-- data-catalog: data sets as tools for a model, and as tables in the page (front/). Whoever installs it says what
-- there is: an SQLite file, a directory of CSV files, or a list without data.
--
--     [[plugins]]
--     name = "data-catalog"
--     [plugins.options]
--     sqlite = "/home/ada/shop.db"
--     csv_dir = "/home/ada/data"
--     datasets = [{ name = "orders", description = "one row an order", columns = ["id", "total"] }]

local catalog = require "catalog"
local csv = require "csv"
local database = require "database"

local ROWS = 200 -- of a table in the page

return function(options)
  -- The files are looked at again for each request: a new one is there at once.
  local function sets()
    local all = {}
    for _, set in ipairs(options.datasets or {}) do all[#all + 1] = set end
    if options.sqlite then
      local tables, why = database.sets(options.sqlite)
      if not tables then log.warn(why) end
      for _, set in ipairs(tables or {}) do all[#all + 1] = set end
    end
    for _, name in ipairs(options.csv_dir and fs.list(options.csv_dir) or {}) do
      local stem = name:match("^(.+)%.csv$")
      local text = stem and fs.read(options.csv_dir .. "/" .. name)
      if text then
        local columns, _, total = csv.read(text, 0)
        all[#all + 1] = { name = stem, description = ("%d %s of %s"):format(total, total == 1 and "row" or "rows", name), columns = columns, file = name }
      end
    end
    return all
  end

  local function describe(name)
    local set = catalog.find(sets(), name)
    if not set then return nil, "there is no data set '" .. name .. "'" end
    return set
  end

  return {
    tools = {
      {
        name = "catalog_search",
        description = "find data sets by words of their name, description or columns",
        input = { query = "string" },
        run = function(ctx, input) return { datasets = catalog.search(sets(), input.query) } end,
      },
      {
        name = "catalog_describe",
        description = "describe one data set",
        input = { name = "string" },
        run = function(ctx, input) return describe(input.name) end,
      },
    },
    routes = {
      ["GET /datasets"] = function(req) return { datasets = catalog.search(sets(), req.query and req.query.q or "") } end,
      ["GET /datasets/:name"] = function(req)
        local set, why = describe(req.params.name)
        if not set then return response { status = 404, body = why } end
        local rows, total = {}, 0
        if set.table then
          rows, total = database.rows(options.sqlite, set.table, ROWS)
        elseif set.file then
          local text = fs.read(options.csv_dir .. "/" .. set.file) or ""
          local _
          _, rows, total = csv.read(text, ROWS)
        end
        return { name = set.name, description = set.description, columns = json.array(set.columns or {}),
                 rows = json.array(rows), total = total }
      end,
    },
    prompt = { id = "data-catalog", text = "Look data sets up with catalog_search before you guess their names." },
  }
end
