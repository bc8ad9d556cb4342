-- The directories of plugins: the four layers of the manual, lowest first, and what is found in them.
local M = {}

local NAME = "^[a-z][a-z0-9_-]*$"

--- The directories of all layers, lowest first: { {layer =, path =}, ... }.
function M.layers(opts)
  opts = opts or {}
  local home, profile = config.data_dir(), opts.profile or config.get("profile") or "default"
  local list = {
    { layer = "user", path = home .. "/plugins" },
    { layer = "user", path = home .. "/shared/plugins" },
    { layer = "user-profile", path = home .. "/profiles/" .. profile .. "/plugins" },
  }
  if opts.repo then
    local base = opts.repo .. "/.afloat/"
    table.insert(list, { layer = "repo", path = base .. "plugins" })
    table.insert(list, { layer = "repo", path = base .. "shared/plugins" })
    table.insert(list, { layer = "repo-profile", path = base .. "profiles/" .. profile .. "/plugins" })
  end
  return list
end

--- What is in the layers, by name; a later layer wins. Runs nothing, decides nothing about trust.
function M.resolve_all(opts)
  local found = {}
  for _, layer in ipairs(M.layers(opts)) do
    for _, entry in ipairs(fs.list(layer.path) or {}) do
      local name = entry:gsub("%.lua$", "")
      if name:find(NAME) then
        found[name] = { name = name, layer = layer.layer, path = layer.path .. "/" .. entry }
      end
    end
  end
  return found
end

return M
