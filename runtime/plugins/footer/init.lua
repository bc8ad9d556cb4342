-- footer: a line under every answer. The option `text` may hold {model}, {session} and {tools}.

return function(options)
  local text = options.text or "-- {model}, {tools} tool calls"
  return {
    hooks = {
      on_begin = function(ctx) ctx.state.footer_tools = 0 end,
      on_tool_call = function(ctx) ctx.state.footer_tools = (ctx.state.footer_tools or 0) + 1 end,
      on_final = function(ctx, answer)
        local values = { model = ctx.model or "", session = ctx.session_id or "", tools = ctx.state.footer_tools or 0 }
        return answer .. "\n\n" .. (text:gsub("{(%a+)}", function(key)
          return values[key] and tostring(values[key])
        end))
      end,
    },
  }
end
