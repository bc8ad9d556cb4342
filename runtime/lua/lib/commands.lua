-- A registry of commands that modules offer each other: a name, a function, a line of help.
--
-- A command is an interceptor of the event "command:NAME". So it belongs to the module that
-- registered it, leaves with it, is replaced with it in one step, and a load that fails leaves none.
local hooks = require "hub.hooks"

local M = {}

local function point(name) return "command:" .. name end

--- Offer a command. A later one of the same name replaces it.
function M.register(name, fn)
  assert(type(name) == "string" and name:find("^[%w_.-]+$"), "a command's name is made of letters, digits, _ . -")
  assert(type(fn) == "function", "a command is a function")
  return hooks.intercept(point(name), name, function(args) return { result = fn(args) } end)
end

function M.unregister(name) return hooks.unintercept(point(name), name) end

--- Run a command with one argument; its result, or nil and a message.
function M.run(name, args)
  local answer = hooks.call(point(name), args or {})
  if type(answer) == "table" and answer ~= args and answer.result ~= nil then return answer.result end
  return nil, "no command '" .. name .. "' answered"
end

return M
