# Run by `afloat plugin test @NAME@`, apart from the hub, where nothing has an effect. `t` calls what init.py registered.


def test_the_tool_greets(t):
    assert t.tool("@TOOL@_greet", {"name": "Ada"}) == "Hello, Ada!"


def test_the_route_greets(t):
    assert t.route("GET", "/hello/Ada") == {"text": "Hello, Ada!"}


def test_the_command_greets_the_world_without_a_name(t):
    assert t.command("hello") == "Hello, world!"
