-- Run by `afloat plugin test @NAME@`, apart from the hub, where nothing has an effect. `t` calls what
-- init.lua registered.

test("the tool greets", function(t)
  t.equal(t.tool("@TOOL@_greet", { name = "Ada" }), "Hello, Ada!")
end)

test("the route greets", function(t)
  t.equal(t.route("GET", "/hello/Ada"), { text = "Hello, Ada!" })
end)

test("the command greets the world without a name", function(t)
  t.equal(t.command("hello"), "Hello, world!")
end)
