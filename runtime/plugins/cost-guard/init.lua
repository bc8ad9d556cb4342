-- cost-guard: a bound on the tokens that one session may use. --max-cost is about money and one turn; this needs
-- no price, and counts over all turns of a session.

return function(options)
  local most = options.tokens or 500000
  local used = state.get("used", {}) -- by session; survives a reload of this file

  local function count(usage)
    return (usage and (usage.input or 0) + (usage.output or 0)) or 0
  end

  return {
    hooks = {
      on_after_model = function(ctx, response)
        used[ctx.session_id] = (used[ctx.session_id] or 0) + count(response.usage)
      end,
      on_before_model = function(ctx)
        local n = used[ctx.session_id] or 0
        if n < most then return end
        return { response = { text = ("cost-guard: this session has used %d of %d tokens; begin a new one, or raise "
          .. "the option `tokens`"):format(n, most) } }
      end,
    },
    commands = {
      { name = "used", description = "tokens used, by session", run = function() return used end },
    },
  }
end
