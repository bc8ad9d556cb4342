// @NAME@: save a file of this directory and it is live; break it and the last good version goes on.
//
//   afloat plugin show @NAME@      what it contributes, what it costs, what is wrong
//   afloat plugin logs -f @NAME@   what it logs, and the compiler's warnings
//   afloat plugin test @NAME@      runs the tests at the end of this file

#include <afloat/plugin.h>

#include <stdio.h>
#include <string.h>

#include "greeting.h"

// A tool: models call it in a session, people with `afloat tool run @TOOL@_greet '{"name":"Ada"}'`.
static void greet_tool(struct afloat_call *c)
{
    char text[200];
    afloat_answer_text(c, "%s", greet(c, afloat_text(c, "input.name"), text, sizeof text));
}

// A route: GET /api/plugins/@NAME@/hello/Ada, over the hub's socket or with its token.
static void hello_route(struct afloat_call *c)
{
    char text[200];
    afloat_set_text(c, "out.text", greet(c, afloat_text(c, "req.params.name"), text, sizeof text));
    afloat_answer_json(c, "%s", afloat_json(c, "out"));
}

// A command: `afloat @NAME@:hello Ada`. Without `.is_long` it would take the plain name `hello`, too.
static void hello_command(struct afloat_call *c)
{
    char text[200];
    afloat_answer_text(c, "%s", greet(c, afloat_text(c, "args.0"), text, sizeof text));
}

// Hooks are functions of that name: every tool call of a session that has this plugin passes here. No answer keeps it.
// `ctx.state` lasts for the turn, and all plugins share it: a key begins with the name of its plugin.
void on_tool_call(struct afloat_call *c)
{
    char calls[32];
    snprintf(calls, sizeof calls, "%lld", afloat_int(c, "ctx.state.@TOOL@_calls", 0) + 1);
    afloat_set(c, "ctx.state.@TOOL@_calls", calls);
}

void on_done(struct afloat_call *c)
{
    afloat_log("info", "%s called %lld tools", afloat_text(c, "ctx.session_id"), afloat_int(c, "ctx.state.@TOOL@_calls", 0));
}

// Tests run apart from the hub, where nothing has an effect.
static void test_tool(struct afloat_call *c)
{
    const char *got = afloat_try(c, "tool", "@TOOL@_greet", "{\"name\": \"Ada\"}");
    if (got == NULL || strcmp(got, "\"Hello, Ada!\"") != 0) {
        afloat_fail(c, "got %s", got != NULL ? got : "nothing");
    }
}

AFLOAT_PLUGIN(
    .name = "@NAME@", .description = "says hello",
    .tools = (const struct afloat_tool[]){
        {.name = "@TOOL@_greet", .description = "greet someone", .input = "{\"name\": \"string\"}", .run = greet_tool}, {0}},
    .routes = (const struct afloat_route[]){{"GET", "/hello/:name", hello_route}, {0}},
    .commands = (const struct afloat_command[]){{"hello", "greet someone", hello_command, .is_long = true}, {0}},
    .flags = (const struct afloat_flag[]){{"loud", "boolean", "false", "say it louder", .is_long = true}, {0}},
    .tests = (const struct afloat_test[]){{"the tool greets", test_tool}, {0}})
