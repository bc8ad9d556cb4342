-- What keys, the palette and widgets do. An action gets the state and, from a widget, what was chosen. It may
-- wait: afloat.call() returns the answer of the hub, or nil and why there is none. What is hidden is not in the
-- palette: it needs what a widget gives it.

local function fail(why)
  if why then afloat.note(why, "bad") end
end

local function close(state)
  state.tui.popup = nil
  state.tui.focus = state.tui.back or "sessions"
  state.tui.back = nil
end

local function popup(state, name)
  if not state.tui.popup then state.tui.back = state.tui.focus end
  state.tui.popup, state.tui.focus = name, name
  state.tui.scroll[name], state.tui.selected[name] = nil, nil -- from its beginning, whatever it showed before
end

local beginning -- true while a session is being made, then its row until it is open

local function new_session(state, kind)
  beginning = true
  local row, why = afloat.call("session.new", { working_dir = state.project, type = kind })
  beginning = row
  if not row then return nil, fail(why) end
  afloat.open(row.id)
  state.tui.pty = nil
  state.tui.selected.sessions = row.id
  state.tui.view = "chat"
  return row
end

local reading -- true while a page of sessions is on its way

-- One more page of sessions that are too old for the hub to tell of by itself. False: that was the last one.
local function read_older(state)
  local before = state.tui.older or {}
  if reading or before.done then return false end
  reading = true
  local page, why = afloat.call("session.list", { limit = 200, cursor = before.next })
  reading = nil
  if not page then return false, fail(why) end
  for _, s in ipairs(page.sessions) do afloat.keep_session(state, s) end
  if state.tui.older then state.tui.older.next, state.tui.older.done = page.next, not page.next end
  return page.next ~= nil
end

-- The end of the list: read on until there is something to show, and choose the first of it.
local function show_older(state)
  local seen = {}
  for _, s in ipairs(afloat.sessions(state)) do seen[s.id] = true end
  local more = true
  while more do
    more = read_older(state)
    for _, s in ipairs(afloat.sessions(state)) do
      if not seen[s.id] and (s.state ~= "ended" or state.tui.ended) then
        state.tui.selected.sessions = s.id
        return afloat.open(s.id)
      end
    end
  end
end

-- A session or a terminal of the list.
local function show_item(state, id)
  if id == "older" then return show_older(state) end
  state.tui.pty = id:match("^pty:(.+)$")
  if not state.tui.pty then afloat.open(id) end
end

-- A command that was typed with `!` has ended: what its screen shows is for the next message.
local function shell_ended(state, row)
  local command = (state.tui.commands or {})[row.id]
  if not command then return end
  state.tui.commands[row.id] = nil
  local how = row.status == nil and "ended" or "exit code " .. tostring(row.status)
  if command.tells then
    local shown = afloat.call("pty.screen", { id = row.id })
    local text = shown and shown.text:gsub("%s+$", "") or ""
    state.tui.ran = (state.tui.ran or "") .. "[I ran a command in the working directory:]\n$ " .. command.cmd .. "\n" ..
      text .. "\n[" .. how .. "]\n\n"
  end
  afloat.note(command.cmd .. ": " .. how .. (command.tells and "; the model reads it with your next message" or ""))
  if state.tui.pty == row.id and state.tui.focus == "terminal" then state.tui.focus = "sessions" end
end

-- A command of the user's: a terminal of its own, whose last screen the model reads with the next message; with `!!` not.
local function shell(state, line)
  local tells = line:sub(1, 1) ~= "!"
  local cmd = (tells and line or line:sub(2)):match("^%s*(.-)%s*$")
  if cmd == "" then return end
  local row, why = afloat.call("pty.new", {
    cmd = state.shell, args = { "-c", cmd }, cwd = state.session and state.session.working_dir or state.project, name = cmd:sub(1, 40),
    rows = math.max(4, state.size.rows - 4), cols = state.size.cols,
  })
  if not row then return fail(why) end
  state.tui.commands = state.tui.commands or {}
  state.tui.commands[row.id] = { cmd = cmd, tells = tells }
  state.tui.view, state.tui.pty, state.tui.focus = "chat", row.id, "terminal"
  state.tui.selected.sessions = "pty:" .. row.id
  local now = afloat.call("pty.show", { id = row.id }) -- a quick one is over before we know its id
  if now and now.state == "ended" then shell_ended(state, now) end
end

-- Send what is typed. A message that is quicker than its session waits for it. The input is empty at once: a question that
-- the message leads to takes the focus only from an empty one, and may come before the answer to it.
local function send(state)
  local text = state.tui.input.message or ""
  if text:match("^%s*$") then return end
  if state.session then beginning = nil end
  local first = text:sub(1, 1)
  if beginning == true and first ~= "!" and first ~= "/" then
    state.tui.send_soon = true
    return
  end
  state.tui.input.message = ""
  if first == "!" then return shell(state, text:sub(2)) end
  if first == "/" and afloat.slash.run(state, text) then return end
  local s = state.session or beginning or new_session(state)
  if not s then
    state.tui.input.message = text
    return
  end
  local asked = state.pending and state.pending[1]
  local _, why
  if asked and asked.question_id then
    _, why = afloat.call("session.answer", { id = s.id, question_id = asked.question_id, answer = text })
  elseif state.busy then
    _, why = afloat.call("session.steer", { id = s.id, text = (state.tui.ran or "") .. text })
  else
    _, why = afloat.call("session.message", { id = s.id, text = (state.tui.ran or "") .. text })
  end
  if why then
    if state.tui.input.message == "" then state.tui.input.message = text end
    return fail(why)
  end
  state.tui.ran = nil
  state.tui.scroll.conversation = 0
end

local function new_terminal(state, how)
  how.cwd = how.cwd or state.project
  local row, why = afloat.call("pty.new", how)
  if not row then return fail(why) end
  state.tui.view, state.tui.pty, state.tui.focus = "chat", row.id, "terminal"
  state.tui.selected.sessions = "pty:" .. row.id
end

-- Ask before something is done that cannot be undone by the next key.
local function confirm(state, text, action, id)
  state.tui.confirm = { text = text, action = action, id = id }
  popup(state, "confirm")
end

-- The run that is chosen in the view of runs.
local function chosen_run(state)
  local id = afloat.chosen("runs")
  for _, r in ipairs(state.runs) do
    if r.run_id == id then return r end
  end
  afloat.note("choose a run first: 'r' shows them", "warn")
end

-- Take over, or leave, what a run did.
local function take_run(state, how, id)
  local params = { id = id }
  if how ~= "discard" then params.working_dir = state.project end
  local row, why = afloat.call("run." .. how, params)
  if not row then return fail(why) end
  afloat.note("run " .. id .. ": " .. (how == "apply" and "its changes are on your tree" or how == "merge" and "merged into " ..
    tostring(row.merged_into) or "discarded"), "good")
end

-- What the user is looking at, or has chosen in a list, by the noun of an operation.
local function at_hand(state, noun)
  if noun == "session" then return state.session and state.session.id end
  if noun == "pty" then return state.tui.pty or (afloat.chosen("sessions") or ""):match("^pty:(.+)$") end
  return afloat.chosen(noun .. "s") -- the views of runs and of plugins
end

local function current(state)
  if not state.session then
    afloat.note("open a session first: Ctrl+N begins one")
    return nil
  end
  return state.session
end

-- "a=1 b='two words'" as a table; a value that is no pair belongs to `first`.
local function parse(text, first)
  local out, rest = {}, text
  while #rest > 0 do
    rest = rest:gsub("^%s+", "")
    local name, after = rest:match("^([%w_]+)=(.*)$")
    if not name then
      if first and #rest > 0 then out[first] = rest end
      break
    end
    local quote = after:match("^['\"]")
    local value
    if quote then
      value, rest = after:match("^" .. quote .. "(.-)" .. quote .. "(.*)$")
    else
      value, rest = after:match("^(%S*)(.*)$")
    end
    if not value then return nil, "a quote has no end: " .. after end
    out[name] = value
  end
  return out
end

local function show(state, title, value)
  state.tui.output = { title = title, text = type(value) == "string" and value or json.encode(value, 2) }
  popup(state, "output")
end

local function run_op(state, op, params)
  local answer, why = afloat.call(op, params)
  if answer == nil then return fail(why) end
  show(state, op, answer)
end

-- A command of a plugin, in the working directory of the open session.
local function run_command(state, command)
  local s = state.session
  command.working_dir = s and (s.worktree or s.working_dir) or state.project
  run_op(state, "command.run", command)
end

-- What of an operation's parameters is known here: which session, terminal, run or plugin it is about.
local function known(state, op)
  local noun, out = op.name:match("^(%a+)%."), {}
  for _, p in ipairs(op.params) do
    if p.name == (noun == "plugin" and "name" or "id") and not p.optional then out[p.name] = at_hand(state, noun) end
  end
  return out
end

-- A plugin as people read it: what it is, what is wrong, what it contributes.
local function plugin_text(p)
  local out = { p.name .. " · " .. p.state .. " · revision " .. tostring(p.revision) .. " · generation " .. tostring(p.generation) ..
    " · " .. (p.layer or p.source or ""), p.path or "" }
  for _, d in ipairs(p.diagnostics or {}) do
    out[#out + 1] = "\n" .. d.severity .. " " .. d.code .. ": " .. d.message
    if d.path then out[#out + 1] = "  " .. d.path .. (d.line and ":" .. d.line or "") end
    if d.hint then out[#out + 1] = "  " .. d.hint end
  end
  out[#out + 1] = ""
  for _, kind in ipairs { "hooks", "tools", "routes", "commands", "prompts" } do
    local names = {}
    for _, x in ipairs(p[kind] or {}) do names[#names + 1] = type(x) == "table" and (x.name or x.path) or tostring(x) end
    if #names > 0 then out[#out + 1] = kind .. ": " .. table.concat(names, ", ") end
  end
  for hook, s in pairs(p.stats and p.stats.hooks or {}) do
    out[#out + 1] = string.format("%s: %d calls, %d errors, p50 %.0f us, p99 %.0f us", hook, s.count, s.errors, s.p50_us or 0, s.p99_us or 0)
  end
  return table.concat(out, "\n")
end

local function find_op(name)
  for _, op in ipairs(afloat.ops()) do
    if op.name == name then return op end
  end
end

-- ---- lines that begin with '/', as in `afloat chat` -------------------------------------------------

local slashes = {
  help = function(state) popup(state, "help") end,
  new = function(state) new_session(state) end,
  quit = function() afloat.quit() end,
  plugins = function(state) afloat.run("view.plugins", state) end,
  tools = function(state) run_op(state, "tool.list", {}) end,
  reload = function(state) afloat.run("reload", state) end,
  resume = function(state, id)
    if id == "" then return afloat.run("session.find", state) end
    show_item(state, id)
  end,
  model = function(state, model)
    local s = current(state)
    if not s then return end
    if model == "" then return run_op(state, "provider.list", {}) end
    local provider, name = model:match("^([^/]+)/(.+)$")
    local row, why = afloat.call("session.patch", { id = s.id, provider = provider, model = name or model })
    if not row then return fail(why) end
    afloat.note("the model is " .. row.provider .. "/" .. row.model, "good")
  end,
  permission = function(state, mode)
    local s = current(state)
    if not s then return end
    if mode == "" then return run_op(state, "permission.list", { path = s.working_dir }) end
    local _, why = afloat.call("session.patch", { id = s.id, permission = mode })
    fail(why)
  end,
  cost = function(state)
    local s = current(state)
    if s then show(state, "what this session has used", s.usage or {}) end
  end,
  compact = function(state)
    local s = current(state)
    if not s then return end
    local _, why = afloat.call("session.compact", { id = s.id })
    fail(why)
  end,
  rewind = function(state, turn)
    local s = current(state)
    if not s then return end
    state.tui.asked_op = "session.rewind"
    state.tui.input.op = "id=" .. s.id .. (turn ~= "" and " to=" .. turn or "")
    popup(state, "op")
  end,
}

for name, run in pairs(slashes) do afloat.slash.register(name, run) end

return {
  ["quit"] = { desc = "leave; sessions continue", run = function() afloat.quit() end },
  ["redraw"] = { desc = "redraw the screen", run = function() afloat.redraw() end },
  ["focus.next"] = { hidden = true, desc = "next part of the screen", run = function(state)
    if state.tui.focus == "message" and state.pending and state.pending[1] and not state.tui.popup then
      state.tui.focus = "ask" -- from a message to what waits for an answer
    else
      afloat.focus_move(1)
    end
  end },
  ["focus.prev"] = { hidden = true, desc = "previous part of the screen", run = function() afloat.focus_move(-1) end },
  ["focus.input"] = { desc = "write a message", run = function(state)
    state.tui.view = "chat"
    state.tui.pty = nil
    state.tui.focus = "message"
  end },

  ["palette.open"] = { hidden = true, desc = "all commands", run = function(state)
    if state.tui.popup == "palette" then return close(state) end
    state.tui.input.palette = ""
    popup(state, "palette")
  end },
  ["palette.choose"] = { hidden = true, desc = "run the chosen command", run = function(state, id)
    close(state)
    if not id then return end
    local kind, name = id:match("^(%a+):(.+)$")
    if kind == "action" then return afloat.run(name, state) end
    if kind == "command" then return run_command(state, { name = name }) end
    local op = find_op(name)
    local have, missing = known(state, op), 0
    for _, p in ipairs(op.params) do
      if not p.optional and not have[p.name] then missing = missing + 1 end
    end
    if missing == 0 and not op.destroys then return run_op(state, name, have) end
    state.tui.asked_op = name
    local text = ""
    for _, p in ipairs(op.params) do
      if have[p.name] then text = text .. p.name .. "=" .. have[p.name] .. " " end
      if not p.optional and not have[p.name] then text = text .. p.name .. "=" end
    end
    state.tui.input.op = text
    popup(state, "op")
  end },
  ["command.run"] = { hidden = true, desc = "run a command of a plugin", run = run_command },
  ["shell.ended"] = { hidden = true, desc = "take over what a command printed", run = shell_ended },
  ["op.run"] = { hidden = true, desc = "run the operation with these values", run = function(state)
    local op = find_op(state.tui.asked_op)
    local first
    for _, p in ipairs(op.params) do first = first or (not p.optional and p.name) end
    local params, why = parse(state.tui.input.op or "", first)
    if not params then return fail(why) end
    close(state)
    run_op(state, op.name, params)
  end },

  ["help.open"] = { desc = "this help", run = function(state) popup(state, "help") end },
  ["popup.close"] = { hidden = true, desc = "close the popup", run = close },
  ["escape"] = { hidden = true, desc = "close, interrupt or go back", run = function(state)
    if state.tui.popup then return close(state) end
    if state.busy then return afloat.run("session.interrupt", state) end
    state.tui.view = "chat"
    state.tui.zoom = nil
    state.tui.focus = "sessions"
  end },

  ["session.new"] = { desc = "new session", run = function(state)
    state.tui.popup = nil
    state.tui.focus = "message"
    new_session(state)
    if state.tui.send_soon then
      state.tui.send_soon = nil
      send(state)
    end
  end },
  ["session.preview"] = { hidden = true, desc = "show the chosen session", run = function(state, id)
    if id then show_item(state, id) end
  end },
  ["session.open"] = { hidden = true, desc = "open the chosen session", run = function(state, id)
    if not id then return end
    show_item(state, id)
    if id == "older" then return end
    state.tui.view = "chat"
    state.tui.focus = state.tui.pty and "terminal" or "message"
  end },
  ["session.find"] = { desc = "find a session, also an old one", run = function(state)
    state.tui.input.find = ""
    popup(state, "find")
    while #state.sessions >= 100 and read_older(state) do end
  end },
  ["session.found"] = { hidden = true, desc = "open the session that was found", run = function(state, id)
    close(state)
    if not id then return end
    state.tui.pty, state.tui.view, state.tui.focus = nil, "chat", "message"
    state.tui.selected.sessions = id
    afloat.open(id)
  end },
  ["terminal.new"] = { desc = "new terminal with your shell; it outlives this screen and the hub", run = function(state)
    new_terminal(state, { cmd = state.shell })
  end },
  ["terminal.worktree"] = { desc = "the same in its own git worktree; apply or merge its work in 'runs'", run = function(state)
    new_terminal(state, { cmd = state.shell, worktree = true })
  end },
  ["terminal.type"] = { desc = "new terminal or session of a session type", run = function(state)
    local all, why = afloat.call("session_type.list", { path = state.project })
    if not all then return fail(why) end
    state.tui.types = {}
    for _, it in ipairs(all.types) do
      if it.kind and not it.shadowed then table.insert(state.tui.types, { name = it.name, kind = it.kind, description = it.description }) end
    end
    if #state.tui.types == 0 then return afloat.note("there is no session type: sessions/TYPE/init.lua makes one", "warn") end
    popup(state, "types")
  end },
  ["type.choose"] = { hidden = true, desc = "start the chosen type", run = function(state, name)
    close(state)
    for _, it in ipairs(state.tui.types or {}) do
      if it.name == name and it.kind == "pty" then return new_terminal(state, { type = name }) end
      if it.name == name and new_session(state, name) then state.tui.focus = "message" end
    end
  end },
  ["run.apply"] = { desc = "in runs: put its changes on your tree", run = function(state)
    local r = chosen_run(state)
    if r then take_run(state, "apply", r.run_id) end
  end },
  ["run.merge"] = { desc = "in runs: merge it into your branch", run = function(state)
    local r = chosen_run(state)
    if r then confirm(state, "merge " .. tostring(r.branch) .. " into your branch?", "run.merge.do", r.run_id) end
  end },
  ["run.merge.do"] = { hidden = true, desc = "merge it", run = function(state, id) take_run(state, "merge", id) end },
  ["run.discard"] = { desc = "in runs: mark it as not wanted", run = function(state)
    local r = chosen_run(state)
    if r then confirm(state, "discard the work of run " .. r.run_id .. "? Its branch stays.", "run.discard.do", r.run_id) end
  end },
  ["run.discard.do"] = { hidden = true, desc = "discard it", run = function(state, id) take_run(state, "discard", id) end },
  ["chosen.end"] = { desc = "end the chosen session or terminal; in runs: stop or discard it", run = function(state)
    if state.tui.view == "runs" then
      local r = chosen_run(state)
      if r and r.state ~= "ended" then return confirm(state, "stop run " .. r.run_id .. "?", "run.stop.do", r.run_id) end
      return r and afloat.run("run.discard", state)
    end
    local id = afloat.chosen("sessions")
    local pty = id and id:match("^pty:(.+)$")
    for _, p in ipairs(pty and state.ptys or {}) do
      if p.id == pty then
        return confirm(state, "end the terminal '" .. (p.name or p.cmd) .. "' with all of its processes?", "pty.end.do", pty)
      end
    end
    for _, s in ipairs(afloat.sessions(state)) do
      if s.id == id then
        local title = (s.title or s.prompt_summary or s.id):match("[^\n]*")
        return confirm(state, "end the session '" .. title .. "'? It can be read later, not continued.", "session.end.do", id)
      end
    end
  end },
  ["run.stop.do"] = { hidden = true, desc = "stop it", run = function(_, id) fail(select(2, afloat.call("run.stop", { id = id }))) end },
  ["pty.end.do"] = { hidden = true, desc = "end it", run = function(state, id)
    fail(select(2, afloat.call("pty.kill", { id = id })))
    if state.tui.pty == id then state.tui.pty = nil end
  end },
  ["session.end.do"] = { hidden = true, desc = "end it", run = function(_, id)
    fail(select(2, afloat.call("session.end", { id = id })))
  end },
  ["confirm.choose"] = { hidden = true, desc = "do it, or not", run = function(state, answer)
    local asked = state.tui.confirm
    close(state)
    state.tui.confirm = nil
    if answer == "yes" and asked then afloat.run(asked.action, state, asked.id) end
  end },
  ["scroll.back"] = { desc = "scroll back in the conversation or terminal", run = function(state)
    afloat.scroll(state.tui.pty and "terminal" or "conversation", -1)
  end },
  ["scroll.on"] = { hidden = true, desc = "scroll on", run = function(state)
    afloat.scroll(state.tui.pty and "terminal" or "conversation", 1)
  end },
  ["zoom"] = { desc = "only the conversation or terminal, without borders; again: all", run = function(state)
    state.tui.zoom = not state.tui.zoom
    state.tui.view = "chat"
    if state.tui.zoom then state.tui.focus = state.tui.pty and "terminal" or "conversation" end
  end },
  ["session.interrupt"] = { desc = "interrupt the turn", run = function(state)
    local s = current(state)
    if s then
      local _, why = afloat.call("session.interrupt", { id = s.id })
      fail(why)
    end
  end },
  -- pressed again before the row of the session has changed, it continues from the mode that was asked for last
  ["permission.next"] = { desc = "next permission mode: ask, edits, plan, auto", run = function(state)
    local s = current(state)
    if not s then return end
    local after = { ask = "edits", edits = "plan", plan = "auto" }
    local asked = state.tui.asked_mode
    local waits = asked and asked.session == s.id and asked.was == s.permission
    local mode = after[waits and asked.mode or s.permission] or "ask"
    state.tui.asked_mode = { session = s.id, was = s.permission, mode = mode }
    local _, why = afloat.call("session.patch", { id = s.id, permission = mode })
    if why then state.tui.asked_mode = nil end
    fail(why)
  end },
  ["message.send"] = { hidden = true, desc = "send the message", run = send },

  -- one key decides: the list "ask" gives what was chosen
  ["ask.decide"] = { hidden = true, desc = "answer what the session asks", run = function(state, id)
    local asked = state.pending and state.pending[1]
    if not asked or not id then return end
    local _, why
    if asked.question_id then
      _, why = afloat.call("session.answer", { id = state.session.id, question_id = asked.question_id, answer = id })
    else
      _, why = afloat.call("session.permission", {
        id = state.session.id, request_id = asked.request_id,
        decision = id == "deny" and "deny" or "allow", remember = id ~= "deny" and id or "once",
      })
    end
    fail(why)
  end },

  ["reload"] = { desc = "reload what changed; start the hub when it is gone", run = function(state)
    if state.lost then return afloat.start() end
    local report, why = afloat.call("reload", {})
    if not report then return fail(why) end
    local text = "generation " .. tostring(report.generation) .. ": " .. #report.added .. " added, " .. #report.changed ..
      " changed, " .. #report.removed .. " removed"
    if #report.failed > 0 then text = text .. ", failed: " .. table.concat(report.failed, " ") end
    afloat.note(text, report.ok and "good" or "bad")
  end },
  ["view.sessions"] = { desc = "sessions and the conversation", run = function(state)
    state.tui.view = "chat"
    state.tui.zoom = nil
    state.tui.focus = "sessions"
  end },
  ["view.plugins"] = { desc = "plugins with generation and errors", run = function(state)
    state.tui.view = "plugins"
    state.tui.focus = "plugins"
  end },
  ["view.runs"] = { desc = "runs of bots and of agents in worktrees", run = function(state)
    state.tui.view = "runs"
    state.tui.focus = "runs"
  end },
  ["plugin.details"] = { hidden = true, desc = "show the chosen plugin", run = function(state, name)
    if not name then return end
    local row, why = afloat.call("plugin.show", { name = name })
    if not row then return fail(why) end
    show(state, name, plugin_text(row))
  end },
  ["run.details"] = { hidden = true, desc = "show what the chosen run changed", run = function(state, id)
    if not id then return end
    local answer, why = afloat.call("run.diff", { id = id })
    if not answer then return fail(why) end
    state.tui.output = { title = "run " .. id, diff = answer.patch ~= "" and answer.patch or "it changed nothing" }
    popup(state, "output")
  end },
  ["ended.toggle"] = { desc = "show or hide ended sessions", run = function(state)
    state.tui.ended = not state.tui.ended
  end },
  ["details.toggle"] = { desc = "show all of what tools print, or little of it", run = function(state)
    state.tui.details = not state.tui.details
    afloat.details(state.tui.details)
  end },
}
