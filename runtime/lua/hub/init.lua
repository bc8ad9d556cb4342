-- The load order of the hub's own Lua, as names of modules; `*` stands for all that fit, in order of
-- name. Each is a step of its own: one that fails is a diagnostic, and the next is loaded. Names
-- without a file are passed over and taken up when the file appears. Protected: read once, at start.
return {
  "hub.state", "hub.hooks", "hub.loader",
  "lib.config_resolver", "lib.agent", "lib.commands",
  "handlers.*",
  "user.init",
}
