-- What a plugin would register, found out by running it where nothing has an effect.
--
-- The chunk gets the request {name, path, data_dir, single, server, files, options, test}, the names of the hook points in
-- lifecycle order, the event types, a compiler, nearest(), the names of the operations that Lua may call, and
-- check_schema(). It offers the whole user API: registrations are checked as in the hub and collected, `state` is an empty copy, and what would reach out returns nil and a message. Then it runs
-- the plugin's server file, and with `test` its tests, and returns what it saw. A fault of the plugin
-- is raised as it is: the code that runs this chunk knows path and line.

local request, points, event_types, compile, nearest, operations, check_schema = ...
local array, error, type, pairs, ipairs, tostring = json.array, error, type, pairs, ipairs, tostring
local pcall, select, setmetatable, concat, unpack = pcall, select, setmetatable, table.concat, table.unpack
local REFUSED = "not while validating"

local seen = { hooks = {}, tools = {}, providers = {}, routes = {}, commands = {}, prompts = {}, flags = {}, ui = {},
               events = {}, mcp_prompts = {}, mcp_resources = {}, metadata = nil }
local by_point = {}

-- ---- checks -----------------------------------------------------------------------------------

local function refuse() return nil, REFUSED end

local function fail(level, fmt, ...) error(fmt:format(...), level + 1) end

local function check(ok, level, fmt, ...)
  if not ok then fail(level + 1, fmt, ...) end
end

local function check_type(v, want, level, what)
  check(type(v) == want, level + 1, "%s must be a %s, not %s", what, want, type(v))
end

local function check_keys(t, who, keys, level)
  for key in pairs(t) do
    check(type(key) == "string", level + 1, "%s: options are named, not a list", who)
    local known = false
    for _, k in ipairs(keys) do known = known or k == key end
    local near = not known and nearest(key, keys)
    check(known, level + 1, "%s: unknown option '%s'%s", who, key, near and (" (did you mean '" .. near .. "'?)") or "")
  end
end

local function check_name(name, who, like, level)
  check(#name <= 64 and name:find("^[a-z][a-z0-9_-]*$"), level + 1, "%s: invalid name '%s'; use a name like '%s'", who,
        name, like)
end

local function check_integer(v, who, key, least, most, level)
  check(v == nil or (math.type(v) == "integer" and v >= least and v <= most), level + 1,
        "%s: %s must be an integer from %d to %d", who, key, least, most)
end

-- ---- hooks and events -------------------------------------------------------------------------

local point_names, known_events = {}, {}
for _, p in ipairs(points) do
  point_names[p], point_names[(p:gsub("^on_", ""))] = p, p
end
for _, e in ipairs(event_types) do known_events[e] = true end

local function handle() return { off = function() return true end } end

local function add_hook(point, opts, fn, level)
  if fn == nil then opts, fn = nil, opts end
  check_type(fn, "function", level + 1, point .. ": the handler")
  check(opts == nil or type(opts) == "table", level + 1, "%s: options must be a table", point)
  if opts then
    check_keys(opts, point, { "tool", "priority", "timeout_ms", "on_error", "fn", "run" }, level + 1)
    check(opts.tool == nil or type(opts.tool) == "string", level + 1, "%s: tool must be a string, not %s", point,
          type(opts.tool))
    check_integer(opts.priority, point, "priority", -0x80000000, 0x7fffffff, level + 1)
    check_integer(opts.timeout_ms, point, "timeout_ms", 1, 86400000, level + 1)
  end
  local on_error = opts and opts.on_error
  check(on_error == nil or on_error == "continue" or on_error == "block", level + 1,
        "%s: on_error must be 'continue' or 'block'", point)
  local list = by_point[point] or {}
  by_point[point] = list
  list[#list + 1] = { fn = fn, tool = opts and opts.tool, priority = opts and opts.priority or 0 }
  return handle()
end

local function add_event(name, fn, level)
  check_type(fn, "function", level + 1, "the handler of '" .. name .. "'")
  seen.events[#seen.events + 1] = { name = name, fn = fn }
  return handle()
end

local function add_on(level, name, opts, fn)
  check_type(name, "string", level + 1, "the name")
  if point_names[name] then return (add_hook(point_names[name], opts, fn, level + 1)) end
  if fn == nil then fn = opts end
  local known = known_events[name] or name == "plugin_start" or name == "plugin_shutdown" or
                name:find("^user%.") or name:find("^[^*]+%*$")
  if not known then
    local near = nearest(name)
    fail(level + 1, "on: there is no hook point or event '%s'%s", name,
         near and (" (did you mean '" .. near .. "'?)") or "")
  end
  return (add_event(name, fn, level + 1)) -- in parentheses: a tail call would take a level away
end

-- ---- tools, routes, commands, prompts, flags --------------------------------------------------

local TYPES = { string = true, integer = true, number = true, boolean = true, array = true, object = true }

-- The shorthand {sides = "integer", label = "string?"} as JSON Schema.
local function schema_of(input, level)
  local properties, required = {}, {}
  for name, what in pairs(input) do
    local spec = type(what) == "table" and what or { type = what }
    check(type(name) == "string" and type(spec.type) == "string", level + 1,
          "input: each member has a type, as in { sides = \"integer\" }")
    local kind, optional = spec.type:match("^(%a+)(%??)$")
    check(TYPES[kind], level + 1, "input.%s: unknown type '%s'", name, spec.type)
    properties[name] = { type = kind, description = spec.description, enum = spec.enum, default = spec.default }
    if optional == "" and spec.default == nil then required[#required + 1] = name end
  end
  table.sort(required)
  return { type = "object", properties = properties, required = array(required) }
end

local function find_named(list, name)
  for _, x in ipairs(list) do
    if x.name == name then return x end
  end
end

local function add_tool(t, level)
  check_type(t, "table", level + 1, "tool: its description")
  check(type(t.name) == "string" and t.name ~= "", level + 1, "a tool has a name")
  check_keys(t, "tool", { "name", "title", "description", "input", "input_schema", "override", "permission", "annotations",
                          "output_schema", "check", "run" }, level + 1)
  check_name(t.name, "tool", "roll-dice", level + 1)
  check(type(t.run) == "function", level + 1, "tool '%s' has no function 'run'", t.name)
  check(t.input == nil or t.input_schema == nil, level + 1, "tool: give 'input' or 'input_schema', not both")
  check(t.input == nil or type(t.input) == "table", level + 1, "tool '%s': input must be a table", t.name)
  check(t.input_schema == nil or type(t.input_schema) == "table", level + 1,
        "tool '%s': input_schema must be a table", t.name)
  local schema = t.input_schema or schema_of(t.input or {}, level + 1)
  local why = t.check ~= false and check_schema(schema)
  check(not why, level + 1, "tool: %s", why)
  if find_named(seen.tools, t.name) then return end -- the first one wins
  seen.tools[#seen.tools + 1] = {
    name = t.name, description = t.description, permission = t.permission, override = t.override,
    input_schema = schema, run = t.run }
end

local function add_provider(t, level)
  check_type(t, "table", level + 1, "provider: its description")
  check(type(t.name) == "string" and t.name:find("^[a-z][a-z0-9_-]*$"), level + 1, "a provider has a name like 'my-models'")
  check(type(t.stream) == "function", level + 1, "provider '%s' has no function 'stream'", t.name)
  check(t.models == nil or type(t.models) == "table", level + 1, "provider '%s': models must be a list of names", t.name)
  if find_named(seen.providers, t.name) then return end
  seen.providers[#seen.providers + 1] = { name = t.name, description = t.description, models = array(t.models or {}),
                                          stream = t.stream }
end

-- mcp.prompt{} and mcp.resource{}: checked like the hub does, and listed
local function add_mcp(list, t, what, key, fn, level)
  check_type(t, "table", level + 1, what .. ": its description")
  check(type(t.name) == "string" and t.name ~= "", level + 1, what .. ": 'name' is missing")
  check(type(t[key]) == "string", level + 1, what .. ": '%s' must be a string", key)
  check(type(t[fn]) == "function", level + 1, what .. " '%s' has no function '%s'", t.name, fn)
  if find_named(list, t[key]) then return end
  list[#list + 1] = { name = t[key], description = t.description, fn = t[fn] }
end

local function add_mcp_resource(t, level)
  check_type(t, "table", level + 1, "mcp.resource: its description")
  check((t.uri == nil) ~= (t.uri_template == nil), level + 1, "mcp.resource: give either 'uri' or 'uri_template'")
  add_mcp(seen.mcp_resources, t, "mcp.resource", t.uri and "uri" or "uri_template", "read", level + 1)
end

local METHODS = { GET = true, POST = true, PUT = true, PATCH = true, DELETE = true, HEAD = true, OPTIONS = true }

local function add_route(method, path, fn, level)
  check(type(method) == "string" and METHODS[method:upper()], level + 1, "route: unknown method '%s'",
        tostring(method))
  check(type(path) == "string" and path:sub(1, 1) == "/", level + 1, "route: a path begins with '/'")
  check_type(fn, "function", level + 1, "route: the handler")
  local names = {}
  for name in path:gmatch("/:([^/]*)") do
    check(name:find("^[%a_][%w_]*$") and not names[name], level + 1, "route: a route cannot have the parameter '%s'%s", name,
          names[name] and " twice" or "")
    names[name] = true
  end
  local name = method:upper() .. " " .. path
  if find_named(seen.routes, name) then return end
  seen.routes[#seen.routes + 1] = { name = name, method = method:upper(), path = path, fn = fn }
end

local function add_command(t, level)
  check_type(t, "table", level + 1, "command: its description")
  check(type(t.name) == "string" and t.name ~= "", level + 1, "a command has a name")
  check_keys(t, "command", { "name", "description", "short", "run" }, level + 1)
  check_name(t.name, "command", "say-hello", level + 1)
  check(type(t.run) == "function", level + 1, "command '%s' has no function 'run'", t.name)
  if find_named(seen.commands, t.name) then return end
  seen.commands[#seen.commands + 1] = { name = t.name, description = t.description, run = t.run }
end

local function add_prompt(p, level)
  if type(p) ~= "table" then p = { text = p } end
  check(type(p.text) == "string" or type(p.text) == "function", level + 1,
        "prompt: the text must be a string or a function")
  check_keys(p, "prompt", { "id", "text", "priority" }, level + 1)
  seen.prompts[#seen.prompts + 1] = { id = p.id, text = p.text, priority = p.priority or 0 }
end

local FLAG_TYPES = {
  boolean = function(v) return type(v) == "boolean" end,
  string = function(v) return type(v) == "string" end,
  integer = function(v) return math.type(v) == "integer" end,
  number = function(v) return type(v) == "number" end,
}

local function add_flag(f, level)
  check_type(f, "table", level + 1, "flag: its description")
  check(type(f.name) == "string" and f.name ~= "", level + 1, "a flag has a name")
  check_keys(f, "flag", { "name", "type", "default", "description", "short" }, level + 1)
  check_name(f.name, "flag", "verbose", level + 1)
  local kind = f.type or "boolean"
  check(FLAG_TYPES[kind], level + 1, "flag: type must be boolean, string, integer or number, not '%s'", tostring(kind))
  check(f.default == nil or FLAG_TYPES[kind](f.default), level + 1, "flag: the default must be of type %s", kind)
  seen.flags[#seen.flags + 1] = { name = f.name, type = f.type or "boolean", default = f.default,
                                  description = f.description }
  return function() return f.default end
end

local function add_ui(key, level)
  check_type(key, "string", level + 1, "preserve_ui: the key")
  seen.ui[#seen.ui + 1] = key
end

local function declare(t, level)
  check_type(t, "table", level + 1, "plugin: its description")
  local api = t.api == nil and "1.0" or t.api
  check(type(api) == "string" and api:match("^[^.]*") == "1", level + 1,
        "Incompatible plugin API version: %s (expected 1.0)", tostring(api))
  seen.metadata = { api = api, name = t.name or request.name, version = t.version, description = t.description }
end

-- ---- what a file may return ---------------------------------------------------------------------

local function each(list, what, add)
  if list == nil then return end
  check_type(list, "table", 3, "the returned table's '" .. what .. "'")
  local keys = {}
  for key in pairs(list) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) -- the same order every time
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  for _, key in ipairs(keys) do add(key, list[key]) end
end

local function named(key, t, what)
  check_type(t, "table", 4, what .. " '" .. tostring(key) .. "'")
  if type(key) ~= "string" or t.name ~= nil then return t end
  local copy = { name = key }
  for k, v in pairs(t) do copy[k] = v end
  return copy
end

local function add_hooks_of(key, value)
  if type(key) ~= "string" then fail(4, "hooks: names are keys, as in { on_begin = function ... }") end
  local point = point_names[key]
  if not point then
    local near = nearest(key)
    fail(4, "hooks: there is no hook point '%s'%s", key, near and (" (did you mean '" .. near .. "'?)") or "")
  end
  if type(value) == "function" then return add_hook(point, nil, value, 4) end
  check_type(value, "table", 4, "hooks." .. key)
  if type(value.fn or value.run) == "function" then return add_hook(point, value, value.fn or value.run, 4) end
  if type(value[1]) == "table" and type(value[2]) == "function" then return add_hook(point, value[1], value[2], 4) end
  for _, one in ipairs(value) do add_hooks_of(key, one) end
end

local function add_route_of(key, value)
  if type(value) == "function" then
    local method, path = tostring(key):match("^(%a+)%s+(/.*)$")
    check(method, 4, "routes: '%s' is not METHOD /path", tostring(key))
    return add_route(method, path, value, 4)
  end
  check_type(value, "table", 4, "routes: each")
  add_route(value.method or value[1], value.path or value[2], value.run or value.fn or value.handler or value[3], 4)
end

local function take_table(t)
  if t.api ~= nil or t.name ~= nil then declare(t, 2) end
  each(t.hooks, "hooks", add_hooks_of)
  each(t.tools, "tools", function(k, v) add_tool(named(k, v, "tool"), 4) end)
  each(t.providers, "providers", function(k, v) add_provider(named(k, v, "provider"), 4) end)
  each(t.routes, "routes", add_route_of)
  each(t.commands, "commands", function(k, v)
    add_command(type(v) == "function" and { name = k, run = v } or named(k, v, "command"), 4)
  end)
  if type(t.prompt) == "table" and t.prompt.text == nil then
    for _, p in ipairs(t.prompt) do add_prompt(p, 2) end
  elseif t.prompt ~= nil then
    add_prompt(t.prompt, 2)
  end
  if type(t.preserve_ui) == "table" then
    for _, key in ipairs(t.preserve_ui) do add_ui(key, 2) end
  elseif t.preserve_ui ~= nil then
    add_ui(t.preserve_ui, 2)
  end
  each(t.on, "on", function(name, fn) add_on(4, name, fn) end)
end

-- ---- the API -----------------------------------------------------------------------------------

local function inert(...)
  local module = {}
  for _, name in ipairs({ ... }) do module[name] = refuse end
  return module
end

local kept = {}
local state = {
  get = function(key, default) -- as in the hub: what is not there is put there
    if kept[key] == nil then kept[key] = default == nil and {} or default end
    return kept[key]
  end,
  set = function(key, value) kept[key] = value end,
  clear = function(key) kept[key] = nil end,
  class = function(key) kept[key] = kept[key] or {} return kept[key] end,
  keys = function()
    local names = {}
    for key in pairs(kept) do names[#names + 1] = key end
    table.sort(names)
    return names
  end,
}

local next_id = 0
local function id() next_id = next_id + 1 return next_id end

local hooks = inert("notify", "call")
function hooks.on(event, name, fn, opts)
  if point_names[event] then add_hook(point_names[event], opts or {}, fn, 2) else add_event(event, fn, 2) end
  return true
end
hooks.intercept = hooks.on
hooks.off, hooks.unintercept, hooks.enable, hooks.disable = function() return true end, function() return true end,
                                                            function() return true end, function() return true end
hooks.list = function() return {} end

local events = { emit = refuse, off = function() return true end }
function events.on(name, fn) add_event(name, fn, 2) return id() end

local timer = { sleep = refuse, cancel = function() return true end }
for _, name in ipairs({ "after", "every" }) do
  timer[name] = function(s, fn)
    check_type(s, "number", 2, "the seconds")
    check(s >= 0 and s <= 316224000, 2, "timer.%s: the time must be between 0 and ten years", name)
    check_type(fn, "function", 2, "the callback")
    return id()
  end
end

local watch = { unwatch = function() return true end }
function watch.directory(_, opts, fn)
  check_type(fn or opts, "function", 2, "the callback")
  return id()
end

local fs = inert("read", "write", "append", "list", "stat", "mkdir", "remove", "rename", "copy")
fs.exists, fs.is_dir = function() return false end, function() return false end

local store = inert("set", "remove")
store.get = function(_, default) return default end
store.keys = function() return {} end

local hub = inert("send", "report")
hub.get_worktrees, hub.sessions = function() return {} end, function() return {} end
hub.generation = function() return 0 end
hub.state = state
for _, name in ipairs(operations) do -- hub.<noun>.<verb>, and hub.<noun> itself can be called
  local noun, verb = name:match("^(%w+)%.?(.*)$")
  if type(hub[noun]) ~= "table" then
    local called = hub[noun] or refuse
    hub[noun] = setmetatable({}, { __call = function() return called() end })
  end
  hub[noun][verb == "end" and "end_" or verb] = refuse
end

local config = {
  get = function(_, default) return default end,
  all = function() return {} end,
  lua_path = function() return "" end,
  data_dir = function() return "" end,
}
local loader = inert("reload", "load_plugin", "reload_plugin", "unload_plugin", "discover", "load_many",
                     "list_plugins", "load_improvements")
local worktree = inert("create", "remove", "list")
local pty = inert("list", "new", "show", "kill", "screen", "input")
local http = inert("request", "get", "post")
local sqlite = inert("query")
local websocket = inert("connect", "send", "close")
local action_cable = inert("connect", "subscribe", "unsubscribe", "perform", "close")
hub.hooks, hub.loader = hooks, loader

local api = {
  on = function(name, opts, fn) return (add_on(2, name, opts, fn)) end,
  plugin = function(t) declare(t, 2) end,
  tool = function(t) add_tool(t, 2) end,
  provider = function(t) add_provider(t, 2) end,
  route = function(method, path, fn) add_route(method, path, fn, 2) end,
  command = function(t) add_command(t, 2) end,
  prompt = function(p) add_prompt(p, 2) end,
  flag = function(f) return (add_flag(f, 2)) end,
  preserve_ui = function(...) for i = 1, select("#", ...) do add_ui((select(i, ...)), 2) end end,
  mcp = {
    tool = function(t) add_tool(t, 2) end,
    prompt = function(t) add_mcp(seen.mcp_prompts, t, "mcp.prompt", "name", "get", 2) end,
    resource = function(t) add_mcp_resource(t, 2) end,
    updated = refuse,
  },
  response = function(t) return t end,
  ToolCall = function(t) return t end,
  ToolResult = function(t) return t end,
  exec = refuse,
  state = state, hooks = hooks, events = events, timer = timer, watch = watch, fs = fs, store = store, hub = hub,
  config = config, loader = loader, worktree = worktree, pty = pty, http = http, sqlite = sqlite, websocket = websocket,
  action_cable = action_cable, secrets = { get = refuse },
}
for _, p in ipairs(points) do
  api[p] = function(opts, fn) return (add_hook(p, opts, fn, 2)) end
end
for _, name in ipairs({ "execute", "remove", "rename", "tmpname" }) do os[name] = refuse end
for _, name in ipairs({ "open", "popen", "lines", "read", "write", "tmpfile", "output", "input" }) do io[name] = refuse end
os.getenv = function() return nil end

-- ---- running the plugin --------------------------------------------------------------------------

local env = setmetatable({}, { __index = function(_, key)
  local v = api[key]
  if v == nil then v = _G[key] end
  return v
end })
env._G = env

local loaded, loading = {}, {}
local own_dir = request.server:match("^(.*/)") or ""

local function find_file(name)
  local rel = name:gsub("%.", "/")
  for _, dir in ipairs({ own_dir, "" }) do
    for _, file in ipairs({ dir .. rel .. ".lua", dir .. rel .. "/init.lua" }) do
      if request.files[file] then return file end
    end
  end
end

local function full(file) return request.single and request.path or request.path .. "/" .. file end

local function stranger(name) -- what another plugin returned: anything, and it does nothing
  return setmetatable({}, { __index = function() return refuse end, __name = "plugin." .. name })
end

env.require = function(name)
  check_type(name, "string", 2, "the module's name")
  local file = find_file(name)
  if file then
    check(not loading[file], 2, "module '%s' requires itself", name)
    if loaded[file] == nil then
      loading[file] = true
      local value = compile(request.files[file], "@" .. full(file), env)(name)
      loading[file] = nil
      loaded[file] = value == nil and true or value
    end
    return loaded[file]
  end
  if name:find("^plugin%.") then return stranger(name:sub(8)) end
  local short = name:match("^hub%.(%a+)$") or name
  local known = api[short] or (package.loaded[name])
  check(known ~= nil, 2, "module '%s' is not in the plugin's directory", name)
  return known
end

local function run_server()
  local value = compile(request.files[request.server], "@" .. full(request.server), env)()
  if type(value) == "function" then
    local options = request.options or {}
    value = value(options, { name = request.name, path = request.path, options = options,
                             working_dir = request.data_dir, data_dir = request.data_dir })
  end
  if type(value) == "table" then take_table(value) end
end

-- ---- tests -----------------------------------------------------------------------------------------

local t = {}
function t.ok(v, message) if not v then error(message or "not true", 2) end end
local function show(v) return type(v) == "table" and json.encode(v) or tostring(v) end
function t.equal(got, want, message)
  if show(got) ~= show(want) then
    error(("%s%s, wanted %s"):format(message and message .. ": " or "", show(got), show(want)), 2)
  end
end
local function find_or_fail(list, name, what)
  return find_named(list, name) or error(("the plugin has no %s '%s'"):format(what, tostring(name)), 3)
end
function t.tool(name, input, ctx) return find_or_fail(seen.tools, name, "tool").run(ctx or { state = {} }, input or {}) end
function t.provider(name, request, ctx)
  local said = {}
  local last = find_or_fail(seen.providers, name, "provider").stream(
    ctx or { state = {} }, request or { messages = {} }, function(event) said[#said + 1] = event end)
  if last ~= nil then said[#said + 1] = last end
  return said
end
function t.command(name, ...) return find_or_fail(seen.commands, name, "command").run({ ... }, { state = {} }) end
local function match_path(pattern, path)
  local params, names = {}, {}
  local expr = pattern:gsub("[%-%.%+%%%?%[%]%^%$%(%)]", "%%%0"):gsub(":([%w_]+)", function(n)
    names[#names + 1] = n
    return "([^/]+)"
  end):gsub("/%*$", function()
    names[#names + 1] = "*"
    return "/(.*)"
  end)
  local got = { path:match("^" .. expr .. "$") }
  if #got == 0 then return nil end
  for i, n in ipairs(names) do params[n] = got[i] end
  return params
end
function t.route(method, path, req)
  for _, r in ipairs(seen.routes) do
    local params = r.method == method and match_path(r.path, path)
    if params then
      local full_req = { method = method, path = path, params = params, query = {}, headers = {}, body = "" }
      for k, v in pairs(req or {}) do full_req[k] = v end
      return r.fn(full_req)
    end
  end
  error(("the plugin has no route '%s %s'"):format(method, path), 2)
end
function t.hook(point, ...)
  local list = by_point[point_names[point] or ""] or error(("the plugin has no hook '%s'"):format(tostring(point)), 2)
  local results
  for _, h in ipairs(list) do results = table.pack(h.fn(...)) end
  return unpack(results, 1, results.n)
end

local tests = {}

-- With `test` the plugin sees a function of that name, so that a single file may hold its own tests.
local function offer_tests()
  env.test = function(name, fn)
    check_type(fn, "function", 2, "the test")
    tests[#tests + 1] = { name = tostring(name), fn = fn }
  end
end

local function run_tests()
  local results = {}
  for _, file in ipairs({ own_dir .. "test.lua", "test.lua" }) do
    if request.files[file] and file ~= request.server then
      compile(request.files[file], "@" .. full(file), env)()
      break
    end
  end
  for i, one in ipairs(tests) do
    local ok, why = pcall(one.fn, t)
    results[i] = { name = one.name, ok = ok, error = not ok and tostring(why) or nil }
  end
  return array(results)
end

-- ---- the answer ------------------------------------------------------------------------------------

local function names_of(list, key)
  local names = {}
  for i, x in ipairs(list) do names[i] = x[key or "name"] end
  return array(names)
end

local function plain(list, ...)
  local out = {}
  for i, x in ipairs(list) do
    out[i] = {}
    for _, key in ipairs({ ... }) do
      local v = x[key]
      out[i][key] = type(v) ~= "function" and v or nil
    end
  end
  return array(out)
end

if request.test then offer_tests() end
run_server()
local results = request.test and run_tests() or nil
local hook_names, handlers = {}, {}
for _, p in ipairs(points) do
  if by_point[p] then hook_names[#hook_names + 1] = p end
  for _, h in ipairs(by_point[p] or {}) do
    handlers[#handlers + 1] = { point = p, tool = h.tool, priority = h.priority }
  end
end
return {
  name = request.name,
  hooks = array(hook_names),
  metadata = seen.metadata or { api = "1.0", name = request.name },
  tools = names_of(seen.tools),
  routes = names_of(seen.routes),
  commands = names_of(seen.commands),
  contributions = {
    handlers = array(handlers),
    tools = plain(seen.tools, "name", "description", "input_schema", "permission", "override"),
    routes = names_of(seen.routes),
    commands = plain(seen.commands, "name", "description"),
    prompts = plain(seen.prompts, "id", "text", "priority"),
    flags = plain(seen.flags, "name", "type", "default", "description"),
    preserve_ui = array(seen.ui),
    providers = plain(seen.providers, "name", "description", "models"),
    mcp_prompts = plain(seen.mcp_prompts, "name", "description"),
    mcp_resources = plain(seen.mcp_resources, "name", "description"),
    events = names_of(seen.events),
  },
  tests = results,
}
