-- The hub goes down: say how long it was up, last of all observers of `shutdown`.
local hooks = require "hub.hooks"
local state = require "hub.state"

local since = state.get("hub.since", os.time())

hooks.on("shutdown", "hub", function()
  log.info(("stopping after %d s"):format(os.time() - since))
end, { priority = -1000 })
