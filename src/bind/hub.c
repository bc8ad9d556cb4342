// hub: what the hub says of itself, and its sessions.
//
//     hub.send(id, text) ──> bind_sessions.send ──> the agent ──answer──> true, or nil and why
//
// The agent answers every question, also one whose asker has gone: the request lives until then.

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"
#include "gen/report.h"

static int l_generation(lua_State *L)
{
    const struct gen *g = gen_current(bind_of(L)->engine);
    lua_pushinteger(L, g != NULL ? (lua_Integer)gen_number(g) : 0);
    return 1;
}

static int l_report(lua_State *L)
{
    const struct gen_report *r = gen_last_report(bind_of(L)->engine);
    struct bind__scratch *s = bind__scratch(L);
    struct json *v = NULL;
    struct jw w;
    if (r == NULL) {
        return bind__fail(L, "hub.report: there was no reload yet");
    }
    jw_init(&w, &s->buf);
    gen_report_write(r, &w);
    if (json_parse(&v, &s->arena, buf_str(&s->buf), NULL, NULL) < 0) {
        return bind__fail(L, "hub.report: the report is too large");
    }
    value_push(L, v);
    return 1;
}

static int l_get_worktrees(lua_State *L)
{
    struct bind__scratch *s = bind__scratch(L);
    struct json *v = NULL;
    struct jw w;
    jw_init(&w, &s->buf);
    bind_worktrees_write(bind_of(L), &w);
    if (json_parse(&v, &s->arena, buf_str(&s->buf), NULL, NULL) < 0) {
        return bind__fail(L, "hub.get_worktrees: there are too many");
    }
    value_push(L, v);
    return 1;
}

// ---- sessions -----------------------------------------------------------------------------------

enum { TEXT_MAX = 1 << 20 };

static void ask_cancel(struct bind_op *op)
{
    (void)op; // the agent answers all the same, and that frees it
}

static int push_sessions(lua_State *L, struct str json)
{
    struct arena arena;
    struct json *v;
    struct err e = {0};
    int n = 1;
    arena_init(&arena);
    if (json_parse(&v, &arena, json, NULL, &e) == 0) {
        value_push(L, json_get(v, "sessions"));
    } else {
        n = bind__fail(L, "hub.sessions: %s", e.msg);
    }
    arena_fini(&arena);
    return n;
}

static void on_sessions(void *arg, struct str json, const char *why)
{
    struct bind_op *op = arg;
    lua_State *L = bind__op_answer_begin(op);
    if (L != NULL) {
        int n = why == NULL ? push_sessions(L, json) : bind__fail(L, "hub.sessions: %s", why);
        bind__op_answer(op, n);
    }
    free(op);
}

static int l_sessions(lua_State *L)
{
    const struct bind_sessions *s = &bind_of(L)->sessions;
    lua_settop(L, 1);
    bind__op_check(L, 1, "hub.sessions");
    if (s->list == NULL) {
        return bind__fail(L, "hub.sessions: the hub is starting or stopping: there are none now");
    }
    struct bind_op *op = xcalloc(1, sizeof *op);
    s->list(s->arg, on_sessions, op);
    return bind__op_begin(L, op, 1, ask_cancel);
}

static void on_sent(void *arg, struct str json, const char *why)
{
    (void)json;
    struct bind_op *op = arg;
    lua_State *L = bind__op_answer_begin(op);
    if (L != NULL) {
        int n = 1;
        if (why == NULL) {
            lua_pushboolean(L, 1);
        } else {
            n = bind__fail(L, "hub.send: %s", why);
        }
        bind__op_answer(op, n);
    }
    free(op);
}

/// The text at `idx` as a model may read it: bytes that are no UTF-8 are replaced.
static struct str read_text(lua_State *L, int idx)
{
    struct json *v;
    struct err e = {0};
    (void)bind__check_z(L, idx, "hub.send", "text");
    if (value_read(&v, &bind__scratch(L)->arena, L, idx, &e) < 0) {
        luaL_error(L, "hub.send: %s", e.msg);
    }
    return json_str(v, "");
}

static int l_send(lua_State *L)
{
    const struct bind_sessions *s = &bind_of(L)->sessions;
    const char *id = bind__check_z(L, 1, "hub.send", "session");
    lua_settop(L, 3);
    bind__op_check(L, 3, "hub.send");
    struct str text = read_text(L, 2);
    if (text.n == 0 || text.n > TEXT_MAX) {
        return bind__fail(L, "hub.send: a message has 1 to %d bytes", TEXT_MAX);
    }
    if (s->send == NULL) {
        return bind__fail(L, "hub.send: the hub is starting or stopping: send it later");
    }
    struct bind_op *op = xcalloc(1, sizeof *op);
    s->send(s->arg, str_of(id), text, on_sent, op);
    return bind__op_begin(L, op, 3, ask_cancel);
}

int face_hub(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"generation", l_generation}, {"report", l_report}, {"get_worktrees", l_get_worktrees},
        {"sessions", l_sessions},     {"send", l_send},     {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
