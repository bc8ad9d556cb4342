test("the line names the model and counts tools", function(t)
  local ctx = { model = "m1", session_id = "s", state = {} }
  t.hook("on_begin", ctx)
  t.hook("on_tool_call", ctx, { tool_name = "shell", input = {} })
  t.equal(t.hook("on_final", ctx, "done"), "done\n\n-- m1, 1 tool calls")
end)
