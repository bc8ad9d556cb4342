test("it counts the tools of a turn and changes nothing", function(t)
  local ctx = { session_id = "s", user_text = "hi", state = {} }
  t.hook("on_begin", ctx)
  t.equal(t.hook("on_tool_result", ctx, { tool_name = "shell" }, { output = "x", success = true }), nil)
  t.equal(ctx.state.logger.tools, 1)
  t.hook("on_done", ctx)
end)
