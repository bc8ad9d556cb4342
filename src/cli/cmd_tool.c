// Tools outside a session, commands that plugins contribute, and events of the user.

#include "cli/call.h"
#include "view/view.h"

const struct form form_tool_list = {
    .layout = {"tools",
               COLUMNS(COL("NAME", ID, NULL), COL("STATE", STATE, "{enabled?on:off}"),
                       COL("PLUGIN", DIM, NULL), COL("DESCRIPTION", TEXT, NULL)),
               NULL}};

const struct form form_tool_enable = {.said = "tool '{$0}' is on"};
const struct form form_tool_disable = {.said = "tool '{$0}' is off"};

/// A text as it is, anything else as indented JSON.
static void print_output(struct cli *c, const struct json *v)
{
    const struct json *output = json_get(v, "output");
    if (output != NULL && output->type == JSON_STR) {
        view_text(&c->out, output->s);
    } else if (output != NULL && output->type != JSON_NULL) {
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, output, 2);
        view_text(&c->out, buf_str(&text));
        buf_fini(&text);
    }
}

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
    .words = "name input", .print = print_output, .judge = judge_output};

int cmd_x(struct cli *c)
{
    const struct form list = {
        .layout = {"commands",
                   COLUMNS(COL("COMMAND", ID, "{name}"), COL("DESCRIPTION", TEXT, NULL)),
                   "no plugin has commands"}};
    const struct form run = {.words = "name args", .print = print_output};
    return c->args.words.n == 0 ? call_with(c, OP_COMMAND_LIST, &list)
                                : call_with(c, OP_COMMAND_RUN, &run);
}

const struct form form_event_emit = {.words = "type data", .text = "{id}"};
