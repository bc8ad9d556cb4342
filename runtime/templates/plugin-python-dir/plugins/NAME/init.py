"""says hello"""
# @NAME@: save a file of this directory and it is live; break it and the last good version goes on.
#
#   afloat plugin show @NAME@      what it contributes, what it costs, what is wrong
#   afloat plugin logs -f @NAME@   what it logs
#   afloat plugin test @NAME@      runs test.py
#
# The decorators and models are there without an import; print() and logging go to the plugin's log.

import greeting  # greeting.py beside this file

# A flag that people switch with `afloat feature enable @NAME@:loud`.
loud = flag("loud", default=False, description="say it louder", short=False)


def greet(name):
    return greeting.of(name, loud())


# A tool: models call it in a session, people with `afloat tool run @TOOL@_greet '{"name":"Ada"}'`.
@tool(name="@TOOL@_greet")
def greet_tool(ctx, name: str):
    """greet someone"""
    return greet(name)


# A route: GET /api/plugins/@NAME@/hello/Ada, over the hub's socket or with its token.
@route("GET", "/hello/:name")
def hello_route(req):
    return {"text": greet(req.params["name"])}


# A command: `afloat @NAME@:hello Ada`. Without `short=False` it would take the plain name `hello`, too.
@command(name="hello", short=False)
def hello_command(args):
    """greet someone"""
    return greet(args[0] if args else "world")


# A hook: every tool call of a session that has this plugin passes here. Returning None keeps it.
# `ctx.state` lasts for the turn, and all plugins share it: a key begins with the name of its plugin.
@on_tool_call
async def count(ctx, call):
    ctx.state["@TOOL@_calls"] = ctx.state.get("@TOOL@_calls", 0) + 1


@on_done
async def done(ctx):
    log.info(f"{ctx.session_id} called {ctx.state.get('@TOOL@_calls', 0)} tools")
