-- Hooks by command, as Claude Code has them: [[command_hooks]] of config.toml. Each event runs a command with JSON on its
-- stdin; exit 0 with JSON on stdout decides, exit 2 blocks with what is on stderr, everything else is a failure, and
-- `on_failure` says what becomes of it. This module is loaded again when the settings change; without such hooks it
-- registers nothing.

local NAMES = { shell = "Bash", read_file = "Read", write_file = "Write", edit_file = "Edit", list_files = "Glob",
                search_files = "Grep", web_fetch = "WebFetch", task = "Task", todo = "TodoWrite" }
-- our name of an input's member to theirs
local MEMBERS = {
  shell = { cmd = "command" }, read_file = { path = "file_path" }, write_file = { path = "file_path" },
  edit_file = { path = "file_path", old = "old_string", new = "new_string", all = "replace_all" },
}

local hooks_of = {}   -- event to its hooks, in the order of the file
do
  local found = {}
  for key, hook in pairs(config.all()) do
    local n = key:match("^command_hooks%.(%d+)$")
    if n then found[#found + 1] = { tonumber(n), hook } end
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  for _, it in ipairs(found) do
    local list = hooks_of[it[2].event] or {}
    hooks_of[it[2].event] = list
    list[#list + 1] = it[2]
  end
end

-- ---- matching -----------------------------------------------------------------------------------

-- A matcher is a list of names with `|` between; `.*` stands for anything, `*` and nothing match all.
local function pattern_of(part)
  return "^" .. part:gsub("%.%*", "\0"):gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0"):gsub("%z", ".*") .. "$"
end

local function matches(hook, ...)
  local matcher = hook.matcher
  if matcher == nil or matcher == "" or matcher == "*" then return true end
  for part in matcher:gmatch("[^|]+") do
    local pattern = pattern_of(part)
    for _, name in ipairs({ ... }) do
      if name:find(pattern) then return true end
    end
  end
  return false
end

local function theirs(tool, input)
  local out, names = {}, MEMBERS[tool] or {}
  for key, value in pairs(input) do out[names[key] or key] = value end
  return out
end

local function ours(tool, input)
  local out, names = {}, {}
  for our, their in pairs(MEMBERS[tool] or {}) do names[their] = our end
  for key, value in pairs(input) do out[names[key] or key] = value end
  return out
end

-- ---- running ------------------------------------------------------------------------------------

local function failed(hook, why)
  log.warn(("command hook '%s' of %s failed: %s"):format(hook.command, hook.event, why))
  if hook.on_failure == "block" then return { block = true, reason = ("hook '%s' failed: %s"):format(hook.command, why) } end
  return {}
end

-- What the command decided: {block, reason, permission, input, context}.
local function decide(hook, result)
  local text = (result.stdout or ""):match("^%s*(.-)%s*$")
  if result.code == 2 then return { block = true, reason = (result.stderr or ""):match("^%s*(.-)%s*$") } end
  if result.code ~= 0 then
    return failed(hook, ("%s: %s"):format(result.signal and result.signal ~= 0 and "signal " .. result.signal or "exit " .. tostring(result.code),
                                         (result.stderr or ""):sub(1, 300)))
  end
  if text:sub(1, 1) ~= "{" then return { context = text ~= "" and text or nil } end
  local said, why = json.decode(text)
  if type(said) ~= "table" then return failed(hook, "its answer is no JSON: " .. tostring(why)) end
  local more = type(said.hookSpecificOutput) == "table" and said.hookSpecificOutput or {}
  local out = { permission = more.permissionDecision, reason = more.permissionDecisionReason or said.reason or said.stopReason,
                input = more.updatedInput, context = more.additionalContext }
  if said.decision == "approve" then out.permission = "allow" end
  out.block = said.decision == "block" or said.continue == false or out.permission == "deny"
  return out
end

local function run(hook, ctx, input)
  input.hook_event_name, input.session_id, input.cwd = hook.event, ctx.session_id, ctx.working_dir
  local result, why = exec { cmd = "/bin/sh", args = { "-c", hook.command }, stdin = json.encode(input), cwd = ctx.working_dir,
                             env = { CLAUDE_PROJECT_DIR = ctx.working_dir or "", PATH = os.getenv("PATH"), HOME = os.getenv("HOME") },
                             timeout_s = hook.timeout_s or 60 }
  if result == nil then return failed(hook, tostring(why)) end
  return decide(hook, result)
end

local function longest(event)
  local s = 0
  for _, hook in ipairs(hooks_of[event]) do s = s + (hook.timeout_s or 60) end
  return { timeout_ms = math.min(s * 1000 + 1000, 600000), on_error = "block" }
end

-- ---- events -------------------------------------------------------------------------------------

local decided = {}   -- call id to what on_permission answers

if hooks_of.PreToolUse then
  on_tool_call(longest("PreToolUse"), function(ctx, call)
    local vote, changed
    for _, hook in ipairs(hooks_of.PreToolUse) do
      if matches(hook, call.tool_name, NAMES[call.tool_name] or call.tool_name) then
        local got = run(hook, ctx, { tool_name = NAMES[call.tool_name] or call.tool_name, tool_input = theirs(call.tool_name, call.input),
                                     tool_use_id = call.tool_call_id })
        if got.input then call.input, changed = ours(call.tool_name, got.input), true end
        if got.context then ctx.memory[#ctx.memory + 1] = got.context end
        if got.block then
          decided[call.tool_call_id] = { "deny", got.reason or "blocked by a hook" }
          return changed and call or nil
        end
        if got.permission == "ask" or (got.permission == "allow" and vote == nil) then vote = got.permission end
      end
    end
    decided[call.tool_call_id] = vote and { vote } or nil
    return changed and call or nil
  end)
  on_permission(function(ctx, call)
    local answer = decided[call.tool_call_id]
    decided[call.tool_call_id] = nil
    if answer then return answer[1], answer[2] end
  end)
end

if hooks_of.PostToolUse then
  local allowed = {}   -- session id to the ids of its calls that were not denied: on_resolve_tool comes after on_permission
  on_resolve_tool({ priority = 1000000 }, function(ctx, call)
    local calls = allowed[ctx.session_id] or {}
    allowed[ctx.session_id], calls[call.tool_call_id] = calls, true
  end)
  on_done(function(ctx) allowed[ctx.session_id] = nil end)
  on_tool_result(longest("PostToolUse"), function(ctx, call, result)
    local added = {}
    if not (allowed[ctx.session_id] or {})[call.tool_call_id] then return end
    for _, hook in ipairs(hooks_of.PostToolUse) do
      if matches(hook, call.tool_name, NAMES[call.tool_name] or call.tool_name) then
        local got = run(hook, ctx, { tool_name = NAMES[call.tool_name] or call.tool_name, tool_input = theirs(call.tool_name, call.input),
                                     tool_use_id = call.tool_call_id,
                                     tool_response = { output = result.output, success = result.success, error = result.error } })
        if got.block then added[#added + 1] = got.reason or "a hook objects" end
        if got.context then added[#added + 1] = got.context end
      end
    end
    if #added ~= 0 then
      result.output = result.output .. "\n" .. table.concat(added, "\n")
      return result
    end
  end)
end

if hooks_of.UserPromptSubmit then
  on_user_message(longest("UserPromptSubmit"), function(ctx, text)
    for _, hook in ipairs(hooks_of.UserPromptSubmit) do
      local got = run(hook, ctx, { prompt = text })
      if got.block then error(got.reason ~= "" and got.reason or "blocked by a hook", 0) end
      if got.context then ctx.memory[#ctx.memory + 1] = got.context end
    end
  end)
end

local function observe(event, ctx, input, each)
  for _, hook in ipairs(hooks_of[event]) do
    if matches(hook, input.source or input.reason or input.trigger or "") then
      local got = run(hook, ctx, input)
      if each then each(got) end
    end
  end
end

if hooks_of.SessionStart then
  local known = {}
  local opts = longest("SessionStart")
  opts.on_error = nil
  on_begin(opts, function(ctx)
    if ctx.session_id and not known[ctx.session_id] then
      known[ctx.session_id] = true
      observe("SessionStart", ctx, { source = "startup" }, function(got)
        if got.context then ctx.memory[#ctx.memory + 1] = got.context end
      end)
    end
  end)
  on("session.ended", function(event) known[event.session] = nil end)
end
if hooks_of.Stop then
  local opts = longest("Stop")
  opts.on_error = nil
  on_done(opts, function(ctx) observe("Stop", ctx, { stop_hook_active = false }) end)
end
if hooks_of.PreCompact then
  on_compact(longest("PreCompact"), function(ctx) observe("PreCompact", ctx, { trigger = "auto" }) end)
end
if hooks_of.SessionEnd then
  on("session.ended", function(event) observe("SessionEnd", { session_id = event.session }, { reason = "other" }) end)
end
if hooks_of.Notification then
  on("permission.requested", function(event)
    observe("Notification", { session_id = event.session },
            { message = ("the agent needs your permission to use %s"):format(event.call and event.call.tool_name or "a tool") })
  end)
end
