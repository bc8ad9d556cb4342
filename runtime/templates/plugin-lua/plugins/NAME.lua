-- @NAME@: a plugin in one file. Save it and it is live; break it and the last good version goes on.
--
--   afloat plugin show @NAME@      what it contributes, what it costs, what is wrong
--   afloat plugin logs -f @NAME@   what it logs
--   afloat plugin test @NAME@      runs the tests at the end of this file

plugin { api = "1.0", name = "@NAME@", description = "says hello" }

-- A flag that people switch with `afloat feature enable @NAME@:loud`.
local loud = flag { name = "loud", short = false, type = "boolean", default = false, description = "say it louder" }

local function greet(name)
  local text = "Hello, " .. name .. "!"
  return loud() and text:upper() or text
end

-- A tool: models call it in a session, people with `afloat tool run @TOOL@_greet '{"name":"Ada"}'`.
tool {
  name = "@TOOL@_greet",
  description = "greet someone",
  input = { name = "string" },
  run = function(ctx, input) return greet(input.name) end,
}

-- A route: GET /api/plugins/@NAME@/hello/Ada, over the hub's socket or with its token.
route("GET", "/hello/:name", function(req) return { text = greet(req.params.name) } end)

-- A command: `afloat @NAME@:hello Ada`. Without `short = false` it would take the plain name `hello`, too.
command {
  name = "hello",
  short = false,
  description = "greet someone",
  run = function(args) return greet(args[1] or "world") end,
}

-- A hook: every tool call of a session that has this plugin passes here. Returning nothing keeps it.
-- `ctx.state` lasts for the turn, and all plugins share it: a key begins with the name of its plugin.
on_tool_call(function(ctx, call)
  ctx.state.@TOOL@_calls = (ctx.state.@TOOL@_calls or 0) + 1
end)
on_done(function(ctx)
  log.info(ctx.session_id .. " called " .. (ctx.state.@TOOL@_calls or 0) .. " tools")
end)

-- Tests run apart from the hub, where nothing has an effect. `t` calls what was registered above.
if test then
  test("the tool greets", function(t)
    t.equal(t.tool("@TOOL@_greet", { name = "Ada" }), "Hello, Ada!")
  end)
  test("the route greets", function(t)
    t.equal(t.route("GET", "/hello/Ada"), { text = "Hello, Ada!" })
  end)
end
