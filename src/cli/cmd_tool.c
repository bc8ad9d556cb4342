// Tools outside a session, commands that plugins contribute, and events of the user.

#include "cli/call.h"

const struct form form_tool_list = {
    .layout = {"tools",
               COLUMNS(COL("NAME", ID, NULL), COL("STATE", STATE, "{enabled?on:off}"),
                       COL("PLUGIN", DIM, NULL), COL("DESCRIPTION", TEXT, NULL)),
               NULL}};

const struct form form_tool_enable = {.said = "tool '{$0}' is on"};
const struct form form_tool_disable = {.said = "tool '{$0}' is off"};

static int judge_output(struct cli *c, const struct json *v)
{
    struct str error = json_get_text(v, "error");
    if (json_bool(json_get(v, "success"), false)) {
        return EXIT_OK;
    }
    out_error(&c->out, "the tool failed%s" STR_FMT, error.n != 0 ? ": " : "", STR_ARG(error));
    return EXIT_FAILED;
}

const struct form form_tool_run = {
    .words = "name input", .print = show_output, .judge = judge_output};

int cmd_x(struct cli *c)
{
    const struct form list = {
        .layout = {"commands",
                   COLUMNS(COL("COMMAND", ID, "{name}"), COL("DESCRIPTION", TEXT, NULL)),
                   "no plugin has commands"}};
    const struct form run = {.words = "name args", .print = show_output};
    return c->args.words.n == 0 ? call_with(c, OP_COMMAND_LIST, &list)
                                : call_with(c, OP_COMMAND_RUN, &run);
}

const struct form form_event_emit = {.words = "type data", .text = "{id}"};
