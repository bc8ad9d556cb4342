-- data-catalog: the data sets of its options, as tools. Whoever installs it says what there is:
--
--     [[plugins]]
--     name = "data-catalog"
--     [plugins.options]
--     datasets = [{ name = "orders", description = "one row an order", columns = ["id", "total"] }]

local catalog = require "catalog"

return function(options)
  local sets = options.datasets or {}
  return {
    tools = {
      {
        name = "catalog_search",
        description = "find data sets by words of their name, description or columns",
        input = { query = "string" },
        run = function(ctx, input) return { datasets = catalog.search(sets, input.query) } end,
      },
      {
        name = "catalog_describe",
        description = "describe one data set",
        input = { name = "string" },
        run = function(ctx, input)
          local set = catalog.find(sets, input.name)
          if not set then return nil, "there is no data set '" .. input.name .. "'" end
          return set
        end,
      },
    },
    routes = { ["GET /datasets"] = function() return { datasets = catalog.search(sets, "") } end },
    prompt = { id = "data-catalog", text = "Look data sets up with catalog_search before you guess their names." },
  }
end
