-- What is on the screen. A tree of nodes; docs/guide/tui.md lists them.

local marks = {
  waiting = { "?", "warn bold" }, running = { "●", "accent" }, idle = { "○", "dim" },
  crashed = { "✗", "bad" }, ended = { "·", "dim" }, queued = { "…", "dim" },
}
local weight = { waiting = 1, crashed = 2, running = 3, queued = 4 }

local function first_line(text)
  text = text or ""
  return (text:match("^%s*([^\n]*)") or "")
end

local function cost(usage)
  local usd = usage and usage.cost_usd
  if not usd or usd <= 0 then return "" end
  return string.format(usd < 1 and "$%.4f" or "$%.2f", usd)
end

-- A directory as people write it: `~` in place of the home.
local function short(state, dir)
  local home = state.user_home or "/"
  if home == "/" or (dir .. "/"):sub(1, #home + 1) ~= home .. "/" then return dir end
  return "~" .. dir:sub(#home + 1)
end

-- A terminal by its name, by what its program calls it, or by its program.
local function pty_title(p)
  for _, text in ipairs { p.name or "", p.title or "", p.cmd or "" } do
    if text ~= "" then return first_line(text) end
  end
  return p.id
end

-- A session of a run is called by what the run was asked: its own prompt begins with the bot's instructions.
local function session_title(state, s)
  local title = s.title or s.prompt_summary
  for _, r in ipairs(s.bot and s.run_id and state.runs or {}) do
    if r.run_id == s.run_id and (r.prompt or "") ~= "" then title = r.prompt end
  end
  if not title or title == "" then title = "new session" end
  return first_line(s.bot and (s.bot .. ": " .. title) or title)
end

-- The sessions of runs that sleep between two iterations: the session has ended, the run has not.
local function sleeping(state)
  local out = {}
  for _, r in ipairs(state.runs) do
    if r.state == "running" and r.session_id then out[r.session_id] = true end
  end
  return out
end

-- The directory of a session that does not work in this project.
local function elsewhere(state, s)
  local dir = s.started_in or s.working_dir or state.project
  if s.run_id and not s.started_in or (dir .. "/"):sub(1, #state.project + 1) == state.project .. "/" then return nil end
  return dir:match("([^/]+)$") or "/"
end

-- The hub tells of the newest hundred by itself.
local function has_older(state) return #state.sessions >= 100 and not (state.tui.older or {}).done end

-- Sessions that wait for the user come first, then those at work, then the newest.
local function session_items(state)
  local out, sleeps, shown = {}, sleeping(state), afloat.sessions(state)
  for i, s in ipairs(shown) do
    local how = s.state == "ended" and sleeps[s.id] and "queued" or s.state
    if how ~= "ended" or state.tui.ended then
      local mark = marks[how] or marks.idle
      out[#out + 1] = {
        id = s.id, mark = mark[1], style = mark[2], text = session_title(state, s),
        secondary = how == "waiting" and "needs you" or how == "queued" and "sleeps" or elsewhere(state, s) or cost(s.usage),
        order = (weight[how] or 9) * 1000000 + i,
      }
    end
  end
  for i, p in ipairs(state.ptys) do
    local ended = p.state == "ended"
    out[#out + 1] = {
      id = "pty:" .. p.id, mark = ended and "·" or "▣", style = ended and "dim" or "accent",
      text = pty_title(p), secondary = ended and "ended" or "", order = (ended and 20 or 5) * 1000000 + i,
    }
  end
  if has_older(state) then
    out[#out + 1] = { id = "older", mark = "↓", style = "dim", text = "older sessions", order = 30 * 1000000 }
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

-- Small windows have no room for a list beside the conversation, low ones none for borders.
local function is_small(state) return state.size.cols < 64 or state.size.rows < 12 end
local function is_low(state) return state.size.rows < 16 end
local function side_width(state) return is_small(state) and 0 or state.size.cols < 110 and 26 or 34 end

-- How many rows a text takes at a width, `most` at most: no window has room for a long one.
local function rows_of(text, width, most)
  return #text > 20000 and most or math.min(afloat.rows(text, width), most)
end

-- The input of a call as people read it: texts of several lines below the rest, not inside of JSON.
local function input_text(input)
  local short, texts = {}, {}
  for key, value in pairs(input) do
    local long = type(value) == "string" and value:find("\n")
    if long then texts[#texts + 1] = "\n" .. key .. ":\n" .. value else short[key] = value end
  end
  table.sort(texts)
  return json.encode(short) .. table.concat(texts)
end

-- What a call wants to do, and with what: all of its input, but for a file whose diff is shown.
local function wish(call, diff)
  local input = call.input or {}
  local alone = next(input) and not next(input, (next(input)))
  if input.cmd and alone then return "run", input.cmd end
  if input.url and alone then return "fetch", input.url end
  if diff and input.path then return "write", input.path end
  return "use", input_text(input)
end

-- A permission or a question: each answer has a key.
local function ask(state)
  local asked = state.pending and state.pending[1]
  if not asked then return nil end
  local items, head, text, diff = {}, nil, nil, nil
  if asked.question_id then
    head, text = asked.question, asked.question
    for i, choice in ipairs(asked.choices or {}) do
      items[#items + 1] = { id = choice, key = tostring(i), text = choice }
    end
    if #items == 0 then items[1] = { text = "type your answer below and press Enter" } end
  else
    local call = asked.call or {}
    local verb, what = wish(call, asked.diff)
    text = (call.tool_name or "a tool") .. " wants to " .. verb .. ": " .. what
    head = { { text = call.tool_name or "a tool", style = "bold" }, { text = " wants to " .. verb .. ": " }, { text = what } }
    diff = asked.diff
    for _, offer in ipairs(asked.offers or {}) do
      items[#items + 1] = {
        id = offer.remember, key = letters[offer.remember],
        text = (offer.remember == "once" and "allow " or "always allow ") .. (offer.covers or offer.remember),
      }
    end
    items[#items + 1] = { id = "deny", key = "d", text = "deny" }
  end
  -- the answers are always to be seen: what is longer than the rest of the window scrolls
  local rows = state.size.rows
  local room, width = rows - #items - (is_low(state) and 2 or 10), math.max(10, state.size.cols - side_width(state) - 2)
  local long = rows_of(text, width, room + 1) > room
  local children = { { type = "text", text = head, size = long and math.max(1, room) or "fit", style = "warn",
    id = long and "asked" or nil, scroll = long } }
  if diff and rows > 18 then
    children[#children + 1] = { type = "diff", id = "asked.diff", text = diff, size = rows_of(diff, width - 2, room) }
  end
  children[#children + 1] = { type = "list", id = "ask", items = items, action = "ask.decide", size = #items, guard = true }
  return {
    type = "pane", title = (asked.question_id and "Question" or "Permission") .. (long and " · Shift+Tab, then arrows: all of it" or ""),
    size = "fit", style = "warn", child = { type = "column", children = children },
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
        { text = "Ctrl+N   begin a session in " .. short(state, state.project) .. "\n" },
        { text = "t        open a terminal; it outlives this screen\n" },
        { text = "Ctrl+P   all commands\n" },
        { text = "Tab      go to the next part of the screen\n" },
        { text = "?        help\n" },
        { text = "Ctrl+Q   leave; sessions and terminals continue\n" },
      } },
    }
  end
  return {
    type = "pane", title = session_title(state, s),
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

local function without_borders(column)
  for i, node in ipairs(column) do
    if node.type == "pane" then
      column[i] = node.child
      column[i].size = node.size
    end
  end
  return { type = "column", children = column }
end

-- A small window shows the sessions as one row until they have the focus.
local function small(state, column)
  local list = sessions(state).child
  list.size = state.tui.focus == "sessions" and math.max(1, state.size.rows // 2) or 1
  list.style = "accent"
  table.insert(column, 1, list)
  if is_low(state) then return without_borders(column) end
  return { type = "column", children = column }
end

local function chat(state)
  local column = { terminal(state) }
  if #column == 0 then
    local question = ask(state)
    local typed = not question or #(state.pending[1].choices or {}) == 0 and state.pending[1].question_id
    if not question or not is_low(state) then column[#column + 1] = conversation(state) end
    column[#column + 1] = question
    if typed or not is_low(state) then column[#column + 1] = input(state) end
  end
  if state.tui.zoom then return without_borders(column) end
  if is_small(state) then return small(state, column) end
  return { type = "row", children = { sessions(state, side_width(state)), { type = "column", children = column } } }
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

-- What became of a run's work.
local function fate(r)
  local files = r.files or 0
  if r.merged_at then return "merged" end
  if r.discarded_at then return "discarded" end
  if r.applied_at then return "applied" end
  if r.state ~= "ended" then return "" end
  return files == 0 and "no changes" or files == 1 and "1 file" or files .. " files"
end

local function runs(state)
  local rows = {}
  for _, r in ipairs(state.runs) do
    rows[#rows + 1] = {
      id = r.run_id, style = r.state == "running" and "accent" or nil,
      r.bot or "", r.project or "", r.state == "ended" and r.end_reason or r.state or "", fate(r), r.branch or "",
      first_line(r.summary or r.prompt or ""),
    }
  end
  return {
    type = "pane", title = "Runs of bots and of programs in worktrees",
    child = {
      type = "table", id = "runs", columns = { "bot", "project", "state", "work", "branch", "" }, rows = rows,
      action = "run.details", empty = "no runs yet: afloat run BOT starts one",
    },
  }
end

-- The keys of actions, as they are bound now.
local function keys_of_actions()
  local out = {}
  for _, k in ipairs(afloat.keymap.list()) do
    if type(k.action) == "string" and (not out[k.action] or #k.key < #out[k.action]) then out[k.action] = k.key end
  end
  return out
end

local function palette(state)
  local items, keys = {}, keys_of_actions()
  for _, a in ipairs(afloat.action.list()) do
    if a.desc and not a.hidden then
      items[#items + 1] = { id = "action:" .. a.name, text = a.name, secondary = a.desc .. (keys[a.name] and " · " .. keys[a.name] or "") }
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

-- A session by what it is about, where it works and its id. Of many that fit, the newest.
local function find(state)
  local items, words = {}, {}
  for word in (state.tui.input.find or ""):lower():gmatch("%S+") do words[#words + 1] = word end
  for _, s in ipairs(afloat.sessions(state)) do
    local mark = marks[s.state] or marks.idle
    local where = (s.started_at or ""):sub(1, 10) .. "  " .. short(state, s.started_in or s.working_dir or "") .. "  " .. s.id
    local text, fits = (session_title(state, s) .. " " .. where .. " " .. (s.started_in or s.working_dir or "")):lower(), #items < 200
    for _, word in ipairs(words) do fits = fits and text:find(word, 1, true) ~= nil end
    if fits then items[#items + 1] = { id = s.id, mark = mark[1], style = mark[2], text = session_title(state, s), secondary = where } end
  end
  return {
    type = "popup", title = has_older(state) and "Sessions · reading older ones" or "Sessions", width = "90%", height = "70%",
    child = { type = "palette", id = "find", items = items, placeholder = "type to search", action = "session.found", cancel = "popup.close",
      empty = "no session fits" },
  }
end

local groups = {
  { "always, also while you type", "palette.open", "focus.next", "focus.prev", "quit" },
  { "the screen", "help.open", "escape", "reload", "redraw" },
  { "sessions and terminals", "session.new", "session.find", "terminal.new", "focus.input", "chosen.end", "session.interrupt", "permission.next",
    "details.toggle", "ended.toggle", "scroll.back", "scroll.on", "zoom" },
  { "views", "view.sessions", "view.plugins", "view.runs", "run.apply", "run.merge" },
}

local function help(state)
  local lines, of = {}, {}
  for _, c in ipairs(afloat.conflicts()) do lines[#lines + 1] = { "conflict", c, style = "warn" } end
  for _, k in ipairs(afloat.keymap.list()) do
    of[k.action] = of[k.action] or {}
    table.insert(of[k.action], k)
  end
  local function add(title, list)
    if #list > 0 then lines[#lines + 1] = { "", "── " .. title, style = "accent" } end
    for _, k in ipairs(list) do lines[#lines + 1] = { k.key, k.desc } end
  end
  for _, group in ipairs(groups) do
    local list = {}
    for i = 2, #group do
      for _, k in ipairs(of[group[i]] or {}) do list[#list + 1] = k end
      of[group[i]] = nil
    end
    add(group[1], list)
  end
  local more = {}
  for _, k in ipairs(afloat.keymap.list()) do
    if of[k.action] then more[#more + 1] = k end
  end
  add("yours, and those of plugins", more)
  add("in the message", { { key = "ctrl+space", desc = "complete /commands, @files, !programs; so does → at its end" } })
  return {
    type = "popup", title = "Keys", width = math.min(state.size.cols, 90), height = math.min(#lines + 3, state.size.rows - 2),
    child = { type = "table", id = "help", columns = { "key", "does" }, rows = lines, action = "popup.close" },
  }
end

local function output(state)
  local out = state.tui.output or {}
  local child = out.diff and { type = "diff", id = "output", text = out.diff }
    or { type = "text", id = "output", text = out.text or "", wrap = true, scroll = true }
  return { type = "popup", title = out.title or "", width = "90%", height = "80%", child = child }
end

-- What is asked before something is ended or merged.
local function confirm(state)
  local asked = state.tui.confirm or {}
  local width = math.min(70, state.size.cols)
  local rows = rows_of(asked.text or "", width - 2, state.size.rows)
  return {
    type = "popup", title = "Sure?", width = width, height = rows + 4,
    child = { type = "column", children = {
      { type = "text", text = asked.text or "", size = rows },
      { type = "list", id = "confirm", action = "confirm.choose", size = 2, items = {
        { id = "no", key = "n", text = "no" }, { id = "yes", key = "y", text = "yes" },
      } },
    } },
  }
end

local function op(state)
  local lines, all = {}, ""
  local function add(text, style)
    lines[#lines + 1] = { text = text, style = style }
    all = all .. text
  end
  for _, o in ipairs(afloat.ops()) do
    if o.name == state.tui.asked_op then
      add(o.help .. "\n\n")
      for _, p in ipairs(o.params) do
        add(p.name, p.optional and "dim" or "bold")
        add("  " .. (p.help or "") .. "\n", "dim")
      end
    end
  end
  local width = math.max(20, state.size.cols * 4 // 5)
  return {
    type = "popup", title = state.tui.asked_op or "", width = width, height = rows_of(all, width - 2, state.size.rows - 5) + 3,
    child = { type = "column", children = {
      { type = "text", text = lines },
      { type = "input", id = "op", placeholder = "name=value ...", submit = "op.run", size = 1 },
    } },
  }
end

-- The session types that can be started here.
local function types(state)
  local items = {}
  for _, it in ipairs(state.tui.types or {}) do
    items[#items + 1] = { id = it.name, mark = it.kind == "pty" and "▣" or "○", text = it.name, secondary = it.description or "" }
  end
  return {
    type = "popup", title = "Start", width = math.min(76, state.size.cols), height = math.min(#items + 2, state.size.rows - 2),
    child = { type = "list", id = "types", items = items, action = "type.choose" },
  }
end

local popups = { find = find, palette = palette, help = help, output = output, op = op, confirm = confirm, types = types }

-- "ctrl+p" as people write it.
local function pretty(key)
  if not key then return nil end
  return #key == 1 and key or (key:gsub("%a+", function(word) return word:sub(1, 1):upper() .. word:sub(2) end))
end

-- What can be pressed now: in inputs and terminals other keys count than in lists.
local function hints(state)
  local keys, out = keys_of_actions(), {}
  local function add(action, what)
    if keys[action] then out[#out + 1] = pretty(keys[action]) .. " " .. what end
  end
  local popup, focus = state.tui.popup, state.tui.focus
  if popup == "op" then return "Enter runs it · Esc closes" end
  if popup == "output" or popup == "help" then return "↑ ↓ scroll · Esc closes" end
  if popup == "palette" then return "↑ ↓ Enter runs it · Esc closes" end
  if popup == "find" then return "↑ ↓ Enter opens it · Esc closes" end
  if popup == "types" then return "Enter starts it · Esc closes" end
  if popup then return "Esc closes" end
  if state.size.cols < 70 then return (pretty(keys["palette.open"]) or "") .. " · " .. (keys["help.open"] or "") end
  if state.tui.view == "runs" then
    out[1] = "Enter diff"
    add("run.apply", "apply")
    add("run.merge", "merge")
    add("chosen.end", "discard")
    if state.size.cols >= 110 then add("view.sessions", "back") end
  elseif state.tui.pty and focus == "terminal" then
    add("focus.next", "leaves the terminal")
    add("palette.open", "palette")
    return table.concat(out, " · ")
  elseif not state.tui.pty and focus == "message" then
    out[1] = state.busy and "Esc interrupts" or "Esc back"
    add("focus.next", "next")
    add("palette.open", "palette")
    return table.concat(out, " · ")
  else
    add("focus.next", "next")
  end
  if state.tui.view ~= "runs" or state.size.cols >= 110 then add("palette.open", "palette") end
  add("help.open", "help")
  return table.concat(out, " · ")
end

-- The terminal that is shown, and where it is.
local function shown_pty(state)
  for _, p in ipairs((state.tui.view or "chat") == "chat" and state.ptys or {}) do
    if p.id == state.tui.pty then return p end
  end
end

local function status(state)
  local s, left = state.session, {}
  local function add(text, style)
    if text and text ~= "" then
      if #left > 0 then left[#left + 1] = { text = " · ", style = "dim" } end
      left[#left + 1] = { text = tostring(text), style = style or "dim" }
    end
  end
  local narrow = state.size.cols < 70
  if not (narrow and state.lost) then add("gen " .. tostring(state.generation), "accent") end
  local failed = 0
  for _, p in ipairs(state.plugins) do
    if p.error then failed = failed + 1 end
  end
  if failed > 0 and not (narrow and state.lost) then add(failed .. " plugin" .. (failed > 1 and "s" or "") .. " failed", "bad") end
  if state.lost then
    local key, typed = pretty(keys_of_actions()["reload"]), { message = "Esc, then ", terminal = "Tab, then " }
    add((narrow and "hub gone: " or "the hub does not answer; ") .. (key and (typed[state.tui.focus] or "") .. key or "'afloat start'") .. " starts it", "bad")
  elseif state.note then
    add(state.note.text, state.note.style)
  elseif shown_pty(state) then -- of the open session nothing is to be seen
    local p = shown_pty(state)
    add(p.branch)
    add(p.directory ~= "" and p.directory or p.cwd)
  else
    local s = (state.tui.view or "chat") == "chat" and s or nil -- else it is not to be seen
    if s then
      add(s.permission)
      if s.fallback then
        add("demo model: no key found", "warn")
      else
        add((s.provider or "") .. "/" .. (s.model or ""))
      end
      add(cost(s.usage))
      local c = s.context or {}
      if c.used and c.window then add("context " .. c.used * 100 // c.window .. "%") end
      add(s.branch)
    end
    add(state.env)
    add(short(state, s and (s.started_in or s.worktree and state.project or s.working_dir) or state.project))
  end
  return { type = "status", left = left, right = (state.note or state.lost) and "" or hints(state) }
end

return function(state, next)
  local views = { plugins = plugins, runs = runs }
  local main = (views[state.tui.view] or chat)(state)
  local children = { main, status(state) }
  local make = popups[state.tui.popup]
  if make then children[#children + 1] = make(state) end
  return { type = "column", children = children }
end
