test("it greets in a language", function(t)
  t.equal(t.tool("hello", { name = "Ada", language = "fr" }), "Bonjour, Ada!")
  t.equal(t.command("greet"), "Hello, world!")
  t.equal(t.route("GET", "/greet/Ada", { query = {} }).text, "Hello, Ada!")
end)

test("it signs an answer once", function(t)
  local ctx = { state = {} }
  t.equal(t.hook("on_final", ctx, "done"), "done\n-- greeted by hello")
  t.equal(t.hook("on_final", ctx, "done"), "done")
end)
