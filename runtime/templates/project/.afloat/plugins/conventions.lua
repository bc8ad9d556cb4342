-- What models should know about this project, and a rule that they cannot talk their way around.

plugin { api = "1.0", name = "conventions", description = "rules of this project" }

prompt("Run the tests before you say that something works. Prefer small commits with a message that says why.")

-- Files that agents leave alone.
local protected = { "LICENSE", ".github/" }

on_permission(function(ctx, call)
  local path = call.input.path or ""
  for _, start in ipairs(protected) do
    if call.tool_name ~= "read_file" and path:sub(1, #start) == start then
      return "deny", "'" .. start .. "' is changed by people only"
    end
  end
  return "allow"
end)

if test then
  test("protected files are denied", function(t)
    t.equal(t.hook("on_permission", {}, { tool_name = "write_file", input = { path = "LICENSE" } }), "deny")
    t.equal(t.hook("on_permission", {}, { tool_name = "write_file", input = { path = "a.txt" } }), "allow")
  end)
end
