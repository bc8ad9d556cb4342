/// <reference path="./afloat.d.ts" />
// @NAME@: save a file of this directory and it is live; break it and the last good version goes on.
//
//   afloat plugin show @NAME@      what it contributes, what it costs, what is wrong
//   afloat plugin logs -f @NAME@   what it logs, console.log included
//   afloat plugin test @NAME@      runs test.mjs

import { command, flag, log, on_done, on_tool_call, route, tool } from "afloat";
import { greeting } from "./greeting.mjs";

// A flag that people switch with `afloat feature enable @NAME@:loud`.
const loud = flag({ name: "loud", short: false, default: false, description: "say it louder" });

const greet = name => greeting(name, loud());

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
