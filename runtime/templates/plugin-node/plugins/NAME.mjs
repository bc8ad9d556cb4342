// @NAME@: a plugin in one file. Save it and it is live; break it and the last good version goes on.
//
//   afloat plugin show @NAME@      what it contributes, what it costs, what is wrong
//   afloat plugin logs -f @NAME@   what it logs, console.log included
//   afloat plugin test @NAME@      runs the tests at the end of this file

import { command, flag, log, on_done, on_tool_call, route, tool } from "afloat";

export const plugin = { api: "1.0", name: "@NAME@", description: "says hello" };

// A flag that people switch with `afloat feature enable @NAME@:loud`.
const loud = flag({ name: "loud", short: false, default: false, description: "say it louder" });

function greet(name) {
  const text = `Hello, ${name}!`;
  return loud() ? text.toUpperCase() : text;
}

// A tool: models call it in a session, people with `afloat tool run @TOOL@_greet '{"name":"Ada"}'`.
tool({
  name: "@TOOL@_greet",
  description: "greet someone",
  input: { name: "string" },
  run: (ctx, input) => greet(input.name),
});

// A route: GET /api/plugins/@NAME@/hello/Ada, over the hub's socket or with its token.
route("GET", "/hello/:name", req => ({ text: greet(req.params.name) }));

// A command: `afloat @NAME@:hello Ada`. Without `short: false` it would take the plain name `hello`, too.
command({ name: "hello", short: false, description: "greet someone", run: args => greet(args[0] ?? "world") });

// A hook: every tool call of a session that has this plugin passes here. Returning nothing keeps it.
// `ctx.state` lasts for the turn, and all plugins share it: a key begins with the name of its plugin.
on_tool_call((ctx, call) => {
  ctx.state.@TOOL@_calls = (ctx.state.@TOOL@_calls ?? 0) + 1;
});
on_done(ctx => log.info(`${ctx.session_id} called ${ctx.state.@TOOL@_calls ?? 0} tools`));

// Tests run apart from the hub, where nothing has an effect. `t` calls what was registered above.
globalThis.test?.("the tool greets", t => t.equal(t.tool("@TOOL@_greet", { name: "Ada" }), "Hello, Ada!"));
globalThis.test?.("the route greets", t => t.equal(t.route("GET", "/hello/Ada"), { text: "Hello, Ada!" }));
