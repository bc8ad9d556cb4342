-- The status line and the prompt of `afloat chat`, `run` and `sessions attach`.
--
-- ~/.afloat/lua/ui/status.lua takes the place of this file; ~/.afloat/lua/user/ui/status.lua adds to it: each of its
-- functions gets, after the state, the one before as `next`. Both count as soon as they are saved.
--
-- state: permission, model ("provider/model"), dir (with ~ for the home), path, branch, env, busy, cols, and, where
-- they are known, context = {used, window} in tokens, cost (USD), input and output (tokens of the session).

local function count(n)
  if n < 1000 then return tostring(n) end
  if n < 1000000 then return string.format("%.1fk", n / 1000) end
  return string.format("%.1fM", n / 1000000)
end

local function context(c)
  if not c then return nil end
  return "context " .. (c.window and c.used * 100 // c.window .. "%" or count(c.used))
end

local function cost(usd)
  if not usd or usd <= 0 then return nil end
  return string.format(usd < 1 and "$%.4f" or "$%.2f", usd)
end

-- The same directory without its first part; nil when only its name is left.
local function shorter(dir)
  local rest = dir:gsub("^…", ""):match("^/?[^/]+(/.+)$")
  return rest and "…" .. rest
end

return {
  -- In a narrow window the directory becomes shorter, then branch and directory are left out: the rest changes.
  status = function(state)
    local dir, branch, line = state.dir, state.branch, nil
    repeat
      local parts = {}
      for _, text in ipairs {
        state.permission or "", state.model or "", dir or "", branch or "", context(state.context) or "", cost(state.cost) or "",
        state.env and "environment " .. state.env or "",
      } do
        if text ~= "" then parts[#parts + 1] = text end
      end
      line = table.concat(parts, " · ")
      if (utf8.len(line) or #line) <= (state.cols or 80) then break end
      local less = dir and shorter(dir)
      if not less and not dir then break end
      if not less and not branch then dir = nil elseif not less then branch = nil else dir = less end
    until false
    return line
  end,

  prompt = function() return "> " end,
}
