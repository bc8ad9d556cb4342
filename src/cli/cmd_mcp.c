// MCP servers as the hub sees them.

#include "cli/call.h"
#include "cli/view.h"

const struct form form_mcp_list = {
    .layout = {
        "servers",
        COLUMNS(COL("NAME", ID, NULL), COL("STATE", STATE, NULL), COL("TOOLS", WORD, "{#tools}"),
                COL("PROJECT", PATH, NULL), COL("ERROR", LONG, NULL)),
        "no MCP servers yet; add a table [mcp.NAME] with a 'command' or a 'url' to config.toml"}};

static void print_offers(struct cli *c, const struct json *v)
{
    static const struct {
        const char *member, *head;
    } lists[] = {{"tools", "TOOL"}, {"prompts", "PROMPT"}};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct column columns[] = {
            COL(lists[i].head, ID, "{name}"),
            COL("DESCRIPTION", TEXT, "{changed?(changed) :}{description}"),
            {NULL, NULL, CELL_TEXT, NULL}};
        const struct json *rows = json_get(v, lists[i].member);
        if (json_at(rows, 0) != NULL) {
            show_rows(c, columns, rows);
        }
    }
}

const struct form form_mcp_show = {
    .layout = {NULL,
               COLUMNS(COL("name", ID, NULL), COL("state", STATE, NULL), COL("error", LONG, NULL),
                       COL("server", TEXT, NULL), COL("protocol", TEXT, NULL),
                       COL("command", TEXT, NULL), COL("url", TEXT, NULL),
                       COL("project", PATH, NULL), COL("sandbox", TEXT, NULL),
                       COL("pid", TEXT, NULL), COL("stderr", LONG, NULL)),
               NULL},
    .print = print_offers};

static void print_test(struct cli *c, const struct json *v)
{
    struct buf line = {.max = SIZE_MAX};
    if (json_bool(json_get(v, "ok"), false)) {
        show_fill(
            c, &line,
            "{server}: {#tools} tools, {#prompts} prompts, revision {protocol}, {duration_ms} ms\n",
            v, STR_NULL);
        view_text(&c->out, buf_str(&line));
    }
    buf_fini(&line);
}

static int judge_test(struct cli *c, const struct json *v)
{
    struct str error = show_member(v, "error");
    if (json_bool(json_get(v, "ok"), false)) {
        return EXIT_OK;
    }
    out_error(&c->out, "the server failed: " STR_FMT, STR_ARG(error));
    return EXIT_FAILED;
}

const struct form form_mcp_test = {.print = print_test, .judge = judge_test};
