-- logger: one line for each turn and each tool, in the plugin's log (`afloat plugin logs logger`).
--
-- Hooks that only look return nothing, and what a turn needs lives in ctx.state.

on_begin(function(ctx)
  ctx.state.logger = { tools = 0, began = os.time() }
  log.info(("%s: turn begins: %s"):format(ctx.session_id, ctx.user_text or ""))
end)

on_tool_result(function(ctx, call, result)
  local seen = ctx.state.logger
  if seen then seen.tools = seen.tools + 1 end
  log.info(("%s: %s %s"):format(ctx.session_id, call.tool_name, result.success and "ok" or "failed"))
end)

on_done(function(ctx)
  local seen = ctx.state.logger or { tools = 0, began = os.time() }
  log.info(("%s: turn %s after %d s, %d tool calls"):format(
    ctx.session_id, ctx.outcome or "done", os.time() - seen.began, seen.tools))
end)
