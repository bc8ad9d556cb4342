-- Agents: how one is started, named and placed, and what happens at its end.
--
-- An agent is a conversation (`chat`), a run of a bot (`bot`) or a program in a terminal (`pty`). Before one is started the
-- hub asks the interceptors of `before_agent_create` with its parameters; before the work of a terminal's run is
-- settled, those of `before_agent_delete`. Change it with interceptors of your own in lua/user/init.lua, or put your copy of
-- this file into lua/handlers/: both are live when they are saved.
--
--     before_agent_create {kind, type?, ...}   what was asked for; `refuse = "why"` refuses it
--       before_pty_spawn {cmd, args, cwd, env, worktree, name, rows, cols}   only of terminals
--       filter_agent_env (env, agent)                                        the environment that was sent along
--     agent_created, agent_lifecycle {kind, id, state, agent}                it runs
--     before_agent_delete {id, run_id, status, action}                       `action`: review, merge or discard
--     agent_deleted, agent_lifecycle                                         it has ended
--     pty_notification, pty_title_changed, pty_cwd_changed {pty, ...}        what its program says
local hooks = require "hub.hooks"
local state = require "hub.state"
local types = require "lib.agent"

local FIRST, LAST = 1000000, -1000000   -- of all interceptors

-- ---- session types ------------------------------------------------------------------------------

hooks.intercept("session_types", "hub", function(ask)
  for _, it in ipairs(ask.types) do
    if it.source then it.values, it.error = types.read(it, ask.cwd) end
  end
  return ask
end, { priority = FIRST })

hooks.intercept("before_agent_create", "types", function(agent)
  local values = agent.session_type
  if values == nil then return end
  agent.session_type = nil
  local merged, why = types.merge(agent, values)
  return merged or { refuse = why }
end, { priority = FIRST, on_error = "block" })

-- ---- start: its name, its place, its environment --------------------------------------------------

-- `claude`, `claude-2`, ...: a name that no other terminal has.
local function free_name(wish)
  local taken = {}
  for _, row in ipairs((pty.list() or { ptys = {} }).ptys) do taken[row.name or ""] = true end
  local name, n = wish, 1
  while taken[name] do
    n = n + 1
    name = ("%s-%d"):format(wish, n)
  end
  return name
end

-- `{prompt}` in an argument is the prompt.
local function fill_args(agent)
  for i, arg in ipairs(agent.args or {}) do
    agent.args[i] = arg:gsub("{prompt}", function() return agent.prompt or "" end)
  end
end

hooks.intercept("before_agent_create", "hub", function(agent)
  if agent.kind == "pty" then
    if (agent.name or "") == "" then agent.name = free_name(agent.type or (agent.cmd or ""):match("[^/]*$")) end
    fill_args(agent)
    agent = hooks.call("before_pty_spawn", agent)
    if type(agent) ~= "table" then return { refuse = "refused by a handler of before_pty_spawn" } end
  end
  if type(agent.env) == "table" then agent.env = hooks.call("filter_agent_env", agent.env, agent) end
  return agent
end, { priority = LAST, on_error = "block", timeout_ms = 5000 })

-- ---- while it lives -------------------------------------------------------------------------------

local function tell(kind, id, what, agent)
  hooks.notify("agent_lifecycle", { kind = kind, id = id, state = what, agent = agent })
end

-- A program is given its prompt when it shows something: one that draws its screen first would lose it.
local function type_prompt(row)
  for _, arg in ipairs(row.args or {}) do
    if arg:find(row.prompt, 1, true) then return end
  end
  for _ = 1, 50 do
    local shown = pty.screen { id = row.id }
    if shown == nil or shown.text:find("%S") then break end
    timer.sleep(0.1)
  end
  pty.input { id = row.id, text = row.prompt .. "\r" }
end

-- Titles and directories change with each prompt of a shell: handlers hear of what is new.
local seen = state.get("agents.seen", {})

local function tell_changes(row)
  local before = seen[row.id] or { title = "", directory = "" }
  seen[row.id] = { title = row.title, directory = row.directory }
  if row.title ~= before.title then hooks.notify("pty_title_changed", { pty = row, title = row.title }) end
  if row.directory ~= before.directory then hooks.notify("pty_cwd_changed", { pty = row, cwd = row.directory }) end
end

on("pty.opened", function(event)
  local row = event.pty
  row.kind = "pty"
  hooks.notify("agent_created", row)
  tell("pty", row.id, "created", row)
  tell_changes(row)
  if type(row.prompt) == "string" then type_prompt(row) end   -- absent it is null
end)

on("session.created", function(event) tell("chat", event.session, "created", event) end)
on("bot.run.started", function(event) tell("bot", event.run_id, "created", event) end)

on("pty.updated", function(event) tell_changes(event.pty) end)

on("pty.notified", function(event)
  hooks.notify("pty_notification", { pty = event.pty, title = event.notification.title, body = event.notification.body })
end)

-- ---- the end --------------------------------------------------------------------------------------

on("pty.closed", function(event)
  local row = event.pty
  row.kind = "pty"
  seen[row.id] = nil
  hooks.notify("agent_deleted", row)
  tell("pty", row.id, "ended", row)
end)

on("session.ended", function(event) tell("chat", event.session, "ended", event) end)
on("bot.run.ended", function(event) tell("bot", event.run_id, "ended", event) end)
