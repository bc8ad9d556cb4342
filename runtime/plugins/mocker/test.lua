test("a call without an answer is left to its tool", function(t)
  t.equal(t.hook("on_resolve_tool", {}, { tool_name = "shell", input = { cmd = "date" } }), nil)
end)
