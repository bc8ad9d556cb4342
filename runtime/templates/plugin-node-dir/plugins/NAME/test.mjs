// Run by `afloat plugin test @NAME@`, apart from the hub, where nothing has an effect. `t` calls what init.mjs registered.

test("the tool greets", t => t.equal(t.tool("@TOOL@_greet", { name: "Ada" }), "Hello, Ada!"));
test("the route greets", t => t.equal(t.route("GET", "/hello/Ada"), { text: "Hello, Ada!" }));
test("the command greets the world without a name", t => t.equal(t.command("hello"), "Hello, world!"));
