// MCP servers: list them, look at one, try one.

#include "mcp/mcp.h"

#include "api/api_int.h"
#include "api/handlers.h"
#include "api/plugin_int.h"

/// False, answered: there are no servers now.
static bool require_servers(struct api *api, struct op_call *c)
{
    if (api->mcp == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping, or was started with --safe");
    }
    return api->mcp != NULL;
}

static void fail_unknown(struct op_call *c)
{
    struct str name = api__name(c);
    op_fail(c, PROBLEM_NOT_FOUND, "`afloat mcp list` lists them", "there is no MCP server '%.*s'",
            (int)MIN(name.n, 100), name.p);
}

void op_MCP_LIST(struct api *api, struct op_call *c)
{
    if (!require_servers(api, c)) {
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "servers");
    mcp_write(api->mcp, w);
    jw_end_arr(w);
    op_end_obj(c, 200);
}

void op_MCP_SHOW(struct api *api, struct op_call *c)
{
    struct buf row = {.max = SIZE_MAX};
    if (!require_servers(api, c)) {
        return;
    }
    struct jw own = {.out = &row};
    if (mcp_write_one(api->mcp, api__name(c), &own)) {
        jw_raw(op_begin(c), buf_str(&row));
        op_end(c, 200);
    } else {
        fail_unknown(c);
    }
    buf_fini(&row);
}

static void fail_call(struct op_call *c, const struct err *e)
{
    op_fail(c, e->code == ERR_TIMEOUT ? PROBLEM_PLUGIN_TIMEOUT : PROBLEM_PLUGIN_FAILED, NULL, "%s",
            e->msg);
}

static void on_read(void *arg, const struct json *text, const struct err *e)
{
    struct op_call *c = arg;
    if (text == NULL) {
        fail_call(c, e);
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_kvalue(w, "uri", json_get(c->params, "uri"));
    jw_kvalue(w, "text", text);
    op_end_obj(c, 200);
}

void op_MCP_READ(struct api *api, struct op_call *c)
{
    struct str uri = json_get_text(c->params, "uri");
    if (require_servers(api, c) && !mcp_read(api->mcp, api__name(c), uri, on_read, c)) {
        fail_unknown(c);
    }
}

static void on_completed(void *arg, const struct json *values, const struct err *e)
{
    struct op_call *c = arg;
    if (values == NULL) {
        fail_call(c, e);
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_kvalue(w, "values", values);
    op_end_obj(c, 200);
}

void op_MCP_COMPLETE(struct api *api, struct op_call *c)
{
    struct mcp_typed typed = {.prompt = json_get_text(c->params, "prompt"),
                              .words = json_get(c->params, "words"),
                              .word = json_get_text(c->params, "word"),
                              .uri = json_get_text(c->params, "uri")};
    if ((typed.prompt.n != 0) == (json_get(c->params, "uri") != NULL)) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "give either 'prompt' or 'uri'");
        return;
    }
    if (require_servers(api, c) && !mcp_complete(api->mcp, api__name(c), &typed, on_completed, c)) {
        fail_unknown(c);
    }
}

static void on_tested(void *arg, bool ok, const char *members)
{
    struct op_call *c = arg;
    (void)ok; // it is among the members
    if (members == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return;
    }
    jw_raw(op_begin(c), str_of(arena_printf(c->arena, "{%s}", members)));
    op_end(c, 200);
}

void op_MCP_TEST(struct api *api, struct op_call *c)
{
    if (require_servers(api, c) && !mcp_test(api->mcp, api__name(c), on_tested, c)) {
        fail_unknown(c);
    }
}
