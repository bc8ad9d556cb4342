test("a blocked command is denied with the reason", function(t)
  local verdict, why = t.hook("on_permission", {}, { tool_name = "shell", input = { cmd = "sudo reboot now" } })
  t.equal(verdict, "deny")
  t.ok(why:find("reboot", 1, true))
end)

test("others are not", function(t)
  t.equal(t.hook("on_permission", {}, { tool_name = "shell", input = { cmd = "ls" } }), "allow")
end)
