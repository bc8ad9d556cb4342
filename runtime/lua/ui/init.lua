-- The frame that the interface's files stand in. The program runs this first in a fresh state, then adds what
-- each file returns, in order: shipped, plugins, the user's. Nothing of an earlier build is left, so nothing stacks.
local ui = { keys = {}, actions = {}, events = {}, components = {}, mouse = {}, conflicts = {}, from = {} }
local layout = function() return { type = "text", text = "no layout" } end
local source = "afloat" -- the file whose values are added now

local names = {
  enter = true, tab = true, backspace = true, esc = true, up = true, down = true, left = true, right = true,
  home = true, ["end"] = true, pageup = true, pagedown = true, insert = true, delete = true, space = true,
}
local order = { "ctrl", "alt", "shift" }

-- "Shift+Ctrl+X" is "ctrl+shift+x"; nil for what is no key.
local function canonical(key)
  if type(key) ~= "string" then return nil end
  local mods, rest = {}, key
  while true do
    local mod, after = rest:match("^(%a+)%+(.+)$")
    mod = mod and mod:lower()
    if mod ~= "ctrl" and mod ~= "alt" and mod ~= "shift" then break end
    mods[mod], rest = true, after
  end
  local name = rest:lower()
  local one = utf8.len(rest) == 1
  if one and (mods.ctrl or mods.alt) then rest = name end
  if not one then rest = name end
  if rest == " " then rest, one = "space", false end
  if not one and not names[rest] and not rest:match("^f%d%d?$") then return nil end
  local out = {}
  for _, mod in ipairs(order) do
    if mods[mod] then out[#out + 1] = mod end
  end
  out[#out + 1] = rest
  return table.concat(out, "+")
end

local function short(path) return (path:match("([^/]+/ui/[^/]+)$") or path:match("([^/]+)$") or path) end

-- A later file wins. Replacing a shipped binding is what overrides are for; of two others both are told.
local function bind(key, action, desc)
  local name = canonical(key)
  if not name then error("there is no key '" .. tostring(key) .. "'", 0) end
  if action ~= false and type(action) ~= "string" and type(action) ~= "function" then
    error("key '" .. key .. "' needs the name of an action, a function or false", 0)
  end
  local before = ui.from[name]
  if before and before ~= "afloat" and before ~= source and ui.keys[name] and ui.keys[name].action ~= action then
    ui.conflicts[#ui.conflicts + 1] = name .. ": " .. short(source) .. " replaces " .. short(before)
  end
  ui.keys[name] = { action = action, desc = desc }
  ui.from[name] = source
end

local function act(name, action, desc)
  local run, hidden = action, false
  if type(action) == "table" then run, desc, hidden = action.run, action.desc, action.hidden end
  if type(run) ~= "function" then error("action '" .. tostring(name) .. "' needs a function", 0) end
  ui.actions[name] = { run = run, desc = desc, hidden = hidden }
end

afloat.keymap = {
  set = function(key, action, opts) bind(key, action, opts and opts.desc) end,
  del = function(key)
    local name = canonical(key) or error("there is no key '" .. tostring(key) .. "'", 0)
    ui.keys[name] = ui.keys[name] and { action = false } or nil
  end,
  list = function()
    local out = {}
    for key, b in pairs(ui.keys) do
      if b.action then
        local a = type(b.action) == "string" and ui.actions[b.action]
        out[#out + 1] = { key = key, action = b.action, desc = b.desc or (a and a.desc) or tostring(b.action) }
      end
    end
    table.sort(out, function(x, y) return x.key < y.key end)
    return out
  end,
}
afloat.action = {
  register = function(name, run, opts) act(name, run, opts and opts.desc) end,
  unregister = function(name) ui.actions[name] = nil end,
  list = function()
    local out = {}
    for name, a in pairs(ui.actions) do out[#out + 1] = { name = name, desc = a.desc, hidden = a.hidden } end
    table.sort(out, function(x, y) return x.name < y.name end)
    return out
  end,
}
afloat.component = {
  register = function(name, render)
    if type(render) ~= "function" then error("component '" .. tostring(name) .. "' needs a function", 0) end
    ui.components[name] = render
  end,
}
afloat.mouse = {
  on = function(kind, run, opts) ui.mouse[#ui.mouse + 1] = { kind = kind, run = run, widget = opts and opts.widget } end,
}
-- Lines of the input that begin with '/': commands of the interface, then those of plugins.
local slashes = {}
afloat.slash = {
  register = function(name, run)
    if type(name) ~= "string" or not name:match("^[%w_-]+$") or type(run) ~= "function" then
      error("command '/" .. tostring(name) .. "' needs a name of letters and digits, and a function", 0)
    end
    slashes[name] = run
  end,
  names = function(state)
    local out = {}
    for name in pairs(slashes) do out[#out + 1] = name end
    for _, c in ipairs(state.commands or {}) do out[#out + 1] = c.name end
    table.sort(out)
    return out
  end,
  -- False: it is no command, and a message may begin so.
  run = function(state, line)
    local name, rest = line:match("^/([%w:_-]+)%s*(.-)%s*$")
    if not name then return false end
    if slashes[name] then
      slashes[name](state, rest)
      return true
    end
    for _, c in ipairs(state.commands or {}) do
      if c.name == name or c.name:match(":(.+)$") == name then
        local words = {}
        for word in rest:gmatch("%S+") do words[#words + 1] = word end
        afloat.run("command.run", state, { name = c.name, args = #words > 0 and words or nil })
        return true
      end
    end
    if line:find("/", 2, true) then return false end -- a path
    afloat.note("there is no command '/" .. name .. "'; /help and Ctrl+P list them", "warn")
    return true
  end,
}
local list_ops, all_ops = afloat.ops, nil
function afloat.ops()
  all_ops = all_ops or list_ops()
  return all_ops
end
-- The newest sessions, as the hub tells of them by itself; then older ones: those that were asked for, and those that
-- waited for an answer when we came, if they still do.
function afloat.sessions(state)
  local older = state.tui.older or { ids = {}, rows = {} }
  local out, seen = {}, {}
  local function add(s)
    if not seen[s.id] then out[#out + 1], seen[s.id] = s, true end
  end
  for _, s in ipairs(state.sessions) do add(s) end
  for _, id in ipairs(older.ids) do add(older.rows[id]) end
  for _, s in ipairs(state.waiting) do add(s) end
  return out
end
-- Keep the row of a session that may be too old to be among the newest.
function afloat.keep_session(state, s)
  local older = state.tui.older or { ids = {}, rows = {} }
  state.tui.older = older
  if not older.rows[s.id] then older.ids[#older.ids + 1] = s.id end
  older.rows[s.id] = {
    id = s.id, state = s.state, title = s.title, prompt_summary = s.prompt_summary, bot = s.bot, run_id = s.run_id,
    started_in = s.started_in, working_dir = s.working_dir, usage = s.usage, started_at = s.started_at,
  }
end
function afloat.conflicts() return ui.conflicts end
function afloat.focus(id) _tui_state.focus = id end
function afloat.run(name, state, arg)
  local a = ui.actions[name]
  if not a then return nil, "there is no action '" .. tostring(name) .. "'" end
  return a.run(state, arg)
end

local adders = {
  layout = function(fn)
    local before = layout
    layout = function(state) return fn(state, before) end
  end,
  keybindings = function(t) for key, action in pairs(t) do bind(key, action) end end,
  actions = function(t) for name, action in pairs(t) do act(name, action) end end,
  events = function(t)
    for kind, fn in pairs(t) do
      if type(fn) ~= "function" then error("event '" .. tostring(kind) .. "' needs a function", 0) end
      ui.events[kind] = ui.events[kind] or {}
      table.insert(ui.events[kind], fn)
    end
  end,
}

-- The file that is loaded next: what it registers while it runs belongs to it.
function ui.begin(path) source = path end
function ui.add(kind, value) adders[kind](value) end

-- A node whose type is a component is what the component makes of it.
local function expand(node, state, depth)
  if type(node) ~= "table" or depth > 40 then return node end
  local make = ui.components[node.type]
  if make then return expand(make(node, state), state, depth + 1) end
  if node.child then node.child = expand(node.child, state, depth + 1) end
  for i, child in ipairs(node.children or {}) do node.children[i] = expand(child, state, depth + 1) end
  return node
end

function ui.render(state) return expand(layout(state), state, 0) end
function ui.action_of(key)
  local b = ui.keys[key]
  return b and b.action or nil
end
function ui.run(state, action, arg)
  if type(action) == "function" then return action(state, arg) end
  local a = ui.actions[action]
  if not a then error("there is no action '" .. tostring(action) .. "'", 0) end
  return a.run(state, arg)
end
function ui.event(state, kind, event)
  for _, fn in ipairs(ui.events[kind] or {}) do fn(state, event) end
  for _, fn in ipairs(ui.events["*"] or {}) do fn(state, event) end
end
function ui.on_mouse(state, event)
  for _, m in ipairs(ui.mouse) do
    if m.kind == event.type and (not m.widget or m.widget == event.widget) and m.run(state, event) then return true end
  end
  return false
end
return ui
