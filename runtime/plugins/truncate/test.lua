test("short output stays, long output keeps head and tail", function(t)
  local short = { output = "x", success = true }
  t.equal(t.hook("on_tool_result", {}, { tool_name = "shell" }, short), nil)
  local long = { output = "first" .. ("ä"):rep(5000) .. "last", success = true }
  local cut = t.hook("on_tool_result", {}, { tool_name = "shell" }, long).output
  t.ok(#cut < 4200)
  t.equal(cut:sub(1, 5), "first")
  t.equal(cut:sub(-4), "last")
  t.ok(utf8.len(cut))
end)
