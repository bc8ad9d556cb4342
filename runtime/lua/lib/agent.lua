-- Session types: sessions/TYPE/init.lua returns a table that says how an agent of that type is started, or a function
-- of {cwd, name} that gives one:
--
--     return { kind = "pty", cmd = "claude", args = { "--model", "opus" }, worktree = true, prompt = "..." }
--     return { kind = "chat", model = "...", plugins = { "logger" }, prompt = "..." }
local M = {}

local KINDS = {
  pty = { cmd = "string", args = "texts", env = "table", cwd = "string", worktree = "boolean", prompt = "string",
          name = "string" },
  chat = { model = "string", provider = "string", engine = "string", plugins = "texts", env = "table", cwd = "string",
           worktree = "boolean", prompt = "string", bot = "string", title = "string" },
}

local function fits(value, want)
  if want ~= "texts" then return type(value) == want end
  if type(value) ~= "table" then return false end
  local n = 0
  for _, text in pairs(value) do
    if type(text) ~= "string" then return false end
    n = n + 1
  end
  return n == #value
end

-- What is wrong with the table; nil: nothing.
local function check(t)
  if type(t) ~= "table" then return "it must return a table, or a function that gives one, not " .. type(t) end
  t.kind = t.kind or (t.cmd and "pty" or "chat")
  local keys = KINDS[t.kind]
  if keys == nil then return "'kind' is \"pty\" or \"chat\", not \"" .. tostring(t.kind) .. '"' end
  for key, value in pairs(t) do
    local want = keys[key] or (key == "description" and "string") or (key == "kind" and "string")
    if not want then return ("'%s' is no key of a session type of kind %s"):format(tostring(key), t.kind) end
    if not fits(value, want) then
      return ("'%s' must be %s"):format(key, want == "texts" and "a list of texts" or "a " .. want)
    end
  end
  if t.kind == "pty" and t.cmd == nil then return "'cmd' is missing: which program?" end
end

--- Read a type {name, path, source} for the directory `cwd`: its table, or nil and a message with file and line.
function M.read(it, cwd)
  local function place(message) return (tostring(message):gsub("^type:", it.path .. ":")) end
  local chunk, why = load(it.source, "=type", "t", setmetatable({}, { __index = _G }))
  if chunk == nil then return nil, place(why) end
  local ok, t = pcall(chunk)
  if ok and type(t) == "function" then ok, t = pcall(t, { cwd = cwd, name = it.name }) end
  if not ok then return nil, place(t) end
  local wrong = check(t)
  if wrong then return nil, ("%s:1: %s"):format(it.path, wrong) end
  return t
end

local function absolute(path, from)
  if path:sub(1, 2) == "~/" then return (os.getenv("HOME") or "") .. path:sub(2) end
  return path:sub(1, 1) == "/" and path or (from or "") .. "/" .. path
end

--- The agent that was asked for, with what its type says where it says nothing itself. Arguments follow those of
--- the type. nil and a message when the type is of another kind.
function M.merge(agent, values)
  if agent.kind ~= values.kind then
    return nil, ("session type '%s' is of kind %s: start it with 'afloat %s'"):format(
      agent.type, values.kind, (values.kind == "pty" and "pty new" or "chat") .. " --type " .. agent.type)
  end
  local where = agent.kind == "pty" and "cwd" or "working_dir"
  if values.cwd then agent[where] = absolute(values.cwd, agent[where]) end
  if values.args and agent.cmd == nil then
    local all = table.move(values.args, 1, #values.args, 1, json.array {})
    agent.args = table.move(agent.args or {}, 1, #(agent.args or {}), #all + 1, all)
  end
  if values.env then
    agent.env = agent.env or { PATH = os.getenv("PATH"), HOME = os.getenv("HOME"), USER = os.getenv("USER"),
                               SHELL = os.getenv("SHELL"), LANG = os.getenv("LANG") }
    for name, value in pairs(values.env) do agent.env[name] = tostring(value) end
  end
  for _, key in ipairs { "cmd", "worktree", "prompt", "name", "model", "provider", "engine", "plugins", "bot", "title" } do
    if agent[key] == nil then agent[key] = values[key] end
  end
  return agent
end

return M
