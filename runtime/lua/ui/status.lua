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

return {
  status = function(state)
    local parts = {}
    local function add(text)
      if text and text ~= "" then parts[#parts + 1] = text end
    end
    add(state.permission)
    add(state.model)
    add(state.dir)
    add(state.branch)
    add(context(state.context))
    add(cost(state.cost))
    add(state.env and "environment " .. state.env)
    return table.concat(parts, " · ")
  end,

  prompt = function() return "> " end,
}
