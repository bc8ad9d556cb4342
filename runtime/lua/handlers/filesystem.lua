-- Turn changes of the user's Lua into the hook event `file_changed {path, kind}`.
local hooks = require "hub.hooks"

watch.directory(config.lua_path(), { recursive = true, pattern = "*.lua" }, function(change)
  hooks.notify("file_changed", { path = change.path, kind = change.kind })
end)
