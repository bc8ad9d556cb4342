-- What is on the screen. A tree of nodes; docs/guide/tui.md lists them.

local marks = {
  waiting = { "?", "warn bold" }, running = { "●", "accent" }, idle = { "○", "dim" },
  crashed = { "✗", "bad" }, ended = { "·", "dim" }, queued = { "…", "dim" },
}
local weight = { waiting = 1, crashed = 2, running = 3 }

local function first_line(text)
  text = text or ""
  return (text:match("^%s*([^\n]*)") or "")
end

local function cost(usage)
  local usd = usage and usage.cost_usd
  if not usd or usd <= 0 then return "" end
  return string.format(usd < 1 and "$%.4f" or "$%.2f", usd)
end

-- A terminal by its name, by what its program calls it, or by its program.
local function pty_title(p)
  for _, text in ipairs { p.name or "", p.title or "", p.cmd or "" } do
    if text ~= "" then return first_line(text) end
  end
  return p.id
end

-- What needs somebody comes first, then what is at work, then the newest.
local function session_items(state)
  local out = {}
  for i, s in ipairs(state.sessions) do
    if s.state ~= "ended" or state.tui.ended then
      local mark = marks[s.state] or marks.idle
      local title = s.title or s.prompt_summary
      if not title or title == "" then title = "new session" end
      out[#out + 1] = {
        id = s.id, mark = mark[1], style = mark[2], text = first_line(s.bot and (s.bot .. ": " .. title) or title),
        secondary = s.state == "waiting" and "needs you" or cost(s.usage), order = (weight[s.state] or 9) * 1000 + i,
      }
    end
  end
  for i, p in ipairs(state.ptys) do
    local ended = p.state == "ended"
    out[#out + 1] = {
      id = "pty:" .. p.id, mark = ended and "·" or "▣", style = ended and "dim" or "accent",
      text = pty_title(p), secondary = ended and "ended" or "", order = 5000 + i,
    }
  end
  table.sort(out, function(a, b) return a.order < b.order end)
  for _, item in ipairs(out) do item.order = nil end
  return out
end

local function sessions(state, size)
  return {
    type = "pane", title = "Sessions", size = size,
    child = {
      type = "list", id = "sessions", items = session_items(state), empty = state.loaded and "none yet: Ctrl+N" or "",
      action = "session.open", select = "session.preview",
    },
  }
end

local letters = { once = "a", exact = "e", prefix = "p", tool = "t", project = "j" }

-- A permission or a question: each answer has a key.
local function ask(state)
  local asked = state.pending and state.pending[1]
  if not asked then return nil end
  local items, head, diff = {}, nil, nil
  if asked.question_id then
    head = asked.question
    for i, choice in ipairs(asked.choices or {}) do
      items[#items + 1] = { id = choice, key = tostring(i), text = choice }
    end
    if #items == 0 then items[1] = { text = "type your answer below and press Enter" } end
  else
    local call = asked.call or {}
    local input = call.input or {}
    local what = input.cmd or input.path or json.encode(input)
    head = { { text = call.tool_name or "a tool", style = "bold" }, { text = " wants to run: " }, { text = what } }
    diff = asked.diff
    for _, offer in ipairs(asked.offers or {}) do
      items[#items + 1] = {
        id = offer.remember, key = letters[offer.remember],
        text = (offer.remember == "once" and "allow " or "always allow ") .. (offer.covers or offer.remember),
      }
    end
    items[#items + 1] = { id = "deny", key = "d", text = "deny" }
  end
  local room = state.size.rows
  local children = { { type = "text", text = head, size = "fit", style = "warn" } }
  if diff and room > 18 then
    children[#children + 1] = { type = "diff", text = diff, size = math.floor(room / 3) }
  end
  children[#children + 1] = { type = "list", id = "ask", items = items, action = "ask.decide", size = #items, guard = true }
  return {
    type = "pane", title = asked.question_id and "Question" or "Permission", size = "fit", style = "warn",
    child = { type = "column", children = children },
  }
end

-- The terminal that is open, if it is still there.
local function terminal(state)
  for _, p in ipairs(state.ptys) do
    if p.id == state.tui.pty then
      return {
        type = "pane", title = pty_title(p),
        child = { type = "terminal", id = "terminal", pty = p.id },
      }
    end
  end
end

local function conversation(state)
  local s = state.session
  if not s then
    return {
      type = "pane", title = "Afloat",
      child = { type = "text", style = "dim", text = {
        { text = "Afloat " .. (state.version or "") .. "\n\n", style = "bold accent" },
        { text = "Ctrl+N   begin a session in " .. state.project .. "\n" },
        { text = "Ctrl+P   all commands\n" },
        { text = "Tab      go to the next part of the screen\n" },
        { text = "?        help\n" },
        { text = "Ctrl+Q   leave; sessions go on\n" },
      } },
    }
  end
  local title = s.title or s.prompt_summary
  if not title or title == "" then title = "new session" end
  return {
    type = "pane", title = first_line(title),
    child = { type = "conversation", id = "conversation" },
  }
end

local function input(state)
  local asked = state.pending and state.pending[1]
  local hint = "message; Enter sends"
  if asked and asked.question_id then hint = "your answer; Enter sends"
  elseif state.busy then hint = "say it to the turn that runs; Esc interrupts"
  elseif not state.session then
    hint = state.tui.focus == "message" and "message; Enter begins a session" or "press i to write a message"
  end
  return {
    type = "pane", size = "fit", title = "",
    child = { type = "input", id = "message", placeholder = hint, submit = "message.send", rows = math.max(1, state.size.rows // 4),
      complete = true, history = true, commands = afloat.slash.names(state) },
  }
end

-- A small window has no room for borders, and shows the sessions as one row until they have the focus.
local function small(state, column)
  local list = sessions(state).child
  list.size = state.tui.focus == "sessions" and math.max(1, state.size.rows // 2) or 1
  list.style = "accent"
  table.insert(column, 1, list)
  for i, node in ipairs(column) do
    if node.type == "pane" and state.size.rows < 16 then
      column[i] = node.child
      column[i].size = node.size
    end
  end
  return { type = "column", children = column }
end

local function chat(state)
  local column = { terminal(state) }
  if #column == 0 then
    column = { conversation(state) }
    local question = ask(state)
    if question then column[#column + 1] = question end
    column[#column + 1] = input(state)
  end
  if state.size.cols < 64 or state.size.rows < 12 then return small(state, column) end
  local side = sessions(state, state.size.cols < 110 and 26 or 34)
  return { type = "row", children = { side, { type = "column", children = column } } }
end

local function plugins(state)
  local rows = {}
  for _, p in ipairs(state.plugins) do
    local bad = p.error and (p.error.message or tostring(p.error)) or nil
    rows[#rows + 1] = {
      id = p.name, style = bad and "bad" or (not p.serving and "dim") or nil,
      p.name, p.state, "r" .. tostring(p.revision or 0), "g" .. tostring(p.generation or 0),
      p.layer or "", bad and first_line(bad) or (p.metadata and p.metadata.description or ""),
    }
  end
  return {
    type = "pane", title = "Plugins · generation " .. tostring(state.generation),
    child = {
      type = "table", id = "plugins", columns = { "plugin", "state", "rev", "gen", "layer", "" }, rows = rows,
      action = "plugin.details", empty = "no plugins yet: afloat plugin new NAME",
    },
  }
end

local function runs(state)
  local rows = {}
  for _, r in ipairs(state.runs) do
    rows[#rows + 1] = {
      id = r.run_id, style = r.state == "running" and "accent" or nil,
      r.bot or "", r.state or "", r.end_reason or "", r.branch or "", first_line(r.summary or r.prompt or ""),
    }
  end
  return {
    type = "pane", title = "Runs of bots and of programs in worktrees",
    child = {
      type = "table", id = "runs", columns = { "bot", "state", "end", "branch", "" }, rows = rows,
      action = "run.details", empty = "no runs yet: afloat run BOT starts one",
    },
  }
end

local function palette(state)
  local items = {}
  for _, a in ipairs(afloat.action.list()) do
    if a.desc and not a.hidden then
      items[#items + 1] = { id = "action:" .. a.name, text = a.name, secondary = a.desc }
    end
  end
  for _, c in ipairs(state.commands or {}) do
    items[#items + 1] = { id = "command:" .. c.name, text = c.name, secondary = c.description or "" }
  end
  for _, op in ipairs(afloat.ops()) do
    items[#items + 1] = { id = "op:" .. op.name, text = op.name, secondary = op.help }
  end
  return {
    type = "popup", title = "Command palette", width = "80%", height = "70%",
    child = { type = "palette", id = "palette", items = items, placeholder = "type to search", action = "palette.choose", cancel = "popup.close" },
  }
end

local function help(state)
  local lines = {}
  for _, c in ipairs(afloat.conflicts()) do lines[#lines + 1] = { "conflict", c, style = "warn" } end
  for _, k in ipairs(afloat.keymap.list()) do lines[#lines + 1] = { k.key, k.desc } end
  lines[#lines + 1] = { "ctrl+space", "in the message: complete /commands, @files, !programs; so does → at its end" }
  return {
    type = "popup", title = "Keys", width = "80%", height = math.min(#lines + 3, state.size.rows),
    child = { type = "table", id = "help", columns = { "key", "does" }, rows = lines, action = "popup.close" },
  }
end

local function output(state)
  local out = state.tui.output or {}
  local child = out.diff and { type = "diff", id = "output", text = out.diff }
    or { type = "text", id = "output", text = out.text or "", wrap = true, scroll = true }
  return { type = "popup", title = out.title or "", width = "90%", height = "80%", child = child }
end

local function op(state)
  local lines = {}
  for _, o in ipairs(afloat.ops()) do
    if o.name == state.tui.asked_op then
      lines[#lines + 1] = { text = o.help .. "\n\n" }
      for _, p in ipairs(o.params) do
        lines[#lines + 1] = { text = p.name, style = p.optional and "dim" or "bold" }
        lines[#lines + 1] = { text = "  " .. (p.help or "") .. "\n", style = "dim" }
      end
    end
  end
  return {
    type = "popup", title = state.tui.asked_op or "", width = "80%", height = "70%",
    child = { type = "column", children = {
      { type = "text", text = lines },
      { type = "input", id = "op", placeholder = "name=value ...", submit = "op.run", size = 1 },
    } },
  }
end

local popups = { palette = palette, help = help, output = output, op = op }

local function status(state)
  local s, left = state.session, {}
  local function add(text, style)
    if text and text ~= "" then
      if #left > 0 then left[#left + 1] = { text = " · ", style = "dim" } end
      left[#left + 1] = { text = tostring(text), style = style or "dim" }
    end
  end
  add("gen " .. tostring(state.generation), "accent")
  local failed = 0
  for _, p in ipairs(state.plugins) do
    if p.error then failed = failed + 1 end
  end
  if failed > 0 then add(failed .. " plugin" .. (failed > 1 and "s" or "") .. " failed", "bad") end
  if state.lost then
    add("the hub does not answer; 'afloat start' starts it", "bad")
  elseif state.note then
    add(state.note.text, state.note.style)
  else
    if s then
      add(s.permission)
      add((s.provider or "") .. "/" .. (s.model or ""))
      add(cost(s.usage))
    end
    add(state.env)
    add(state.project)
  end
  local hints = state.size.cols >= 70 and "Tab next · Ctrl+P palette · ? help" or "Ctrl+P · ?"
  return { type = "status", left = left, right = state.note and "" or hints }
end

return function(state, next)
  local views = { plugins = plugins, runs = runs }
  local main = (views[state.tui.view] or chat)(state)
  local children = { main, status(state) }
  local make = popups[state.tui.popup]
  if make then children[#children + 1] = make(state) end
  return { type = "column", children = children }
end
