// What Lua can do here: ask the hub, and move the interface.
//
//     afloat.call(op, params) ── the running action is suspended ── async_open() ──> hub
//              ^ the answer, or nil and why ──────────────────────────────────────────┘
//
// The environment travels with the client: an operation that takes `env` or `working_dir` gets ours, unless the
// code gives another, or it changes something that has its own.

#include <lauxlib.h>

#include "client/ask.h"
#include "client/start.h"
#include "client/travel.h"
#include "loop/work.h"
#include "lua/args.h"
#include "lua/entry.h"
#include "lua/value.h"
#include "tui/widgets_int.h"

enum { PARAMS_MAX = 32, PAGES_MAX = 1000 };

/// A question to the hub that suspended Lua code waits for.
struct question {
    struct entry_wait wait; // first
    struct async *call;
};

/// The values for an operation, as text; they live in the arena.
struct op_values {
    struct arena a;
    struct ask_param params[PARAMS_MAX];
    size_t n;
};

// ---- building ------------------------------------------------------------------------------

static const char *json_text(struct arena *a, const struct json *v)
{
    struct buf out = {.max = SIZE_MAX};
    json_write(&out, v, 0);
    const char *text = arena_strdup(a, buf_str(&out));
    buf_fini(&out);
    return text;
}

// A string is passed on as it is, unless any JSON is wanted there; other values as JSON.
static const char *text_of(struct op_values *g, const struct op_param *p, const struct json *v)
{
    return v->type == JSON_STR && p->type != 'j' ? arena_strdup(&g->a, v->s) : json_text(&g->a, v);
}

static const char *own_value(struct tui *t, struct op_values *g, const struct op *op,
                             const struct op_param *p)
{
    struct buf out = {.max = SIZE_MAX};
    struct err e;
    if (op->method == OP_PATCH) {
        return NULL;
    }
    if (str_eqz(p->name, "working_dir")) {
        return arena_strdup(&g->a, str_of(t->o->project));
    }
    if (!str_eqz(p->name, "env") || op->method != OP_POST) {
        return NULL;
    }
    struct jw w = {.out = &out};
    bool ok = travel_write_env(t->o->home, &w, &e) == 0;
    const char *text = ok ? arena_strdup(&g->a, buf_str(&out)) : NULL;
    buf_fini(&out);
    return text;
}

// Take the values that the operation knows out of `values`. NULL, or what is wrong.
static const char *take_values(struct tui *t, struct op_values *g, const struct op *op,
                               const struct json *values)
{
    struct str rest = str_of(op->params);
    struct op_param p;
    while (op_next_param(op, &rest, &p) && g->n < PARAMS_MAX) {
        const struct json *v = json_get_str(values, p.name);
        const char *name = arena_strdup(&g->a, p.name);
        const char *text = v != NULL ? text_of(g, &p, v) : own_value(t, g, op, &p);
        if (text == NULL && !p.optional) {
            return arena_printf(&g->a, "'%s' needs '%s'", op->name, name);
        }
        g->params[g->n++] = (struct ask_param){name, text};
    }
    json_foreach_member (m, values) {
        struct str all = str_of(op->params);
        bool found = false;
        while (op_next_param(op, &all, &p)) {
            found = found || str_eq(p.name, m->key);
        }
        if (!found) {
            return arena_printf(&g->a, "'%s' has no parameter '" STR_FMT "'", op->name,
                                STR_ARG(m->key));
        }
    }
    return NULL;
}

// ---- answers -------------------------------------------------------------------------------

static void push_problem(lua_State *L, const struct json *v, int status)
{
    struct str detail = json_get_text(v, "detail"), hint = json_get_text(v, "hint");
    lua_pushnil(L);
    if (detail.n == 0) {
        lua_pushfstring(L, "the hub answered with status %d", status);
    } else {
        lua_pushlstring(L, detail.p, detail.n);
    }
    if (hint.n != 0) {
        lua_pushstring(L, " (");
        lua_pushlstring(L, hint.p, hint.n);
        lua_pushstring(L, ")");
        lua_concat(L, 4);
    }
}

static void on_answer(int rc, const struct client_answer *a, const struct err *e, void *arg)
{
    struct question *q = arg;
    struct arena arena = {0};
    struct json *v = NULL;
    int n = 2;
    lua_State *L = entry_wake_begin(&q->wait);
    if (rc < 0) {
        lua_pushnil(L);
        lua_pushstring(L, e->msg);
    } else if (json_parse(&v, &arena, buf_str(&a->body), NULL, NULL) < 0) {
        lua_pushlstring(L, buf_z(&a->body), a->body.n);
        n = 1;
    } else if (a->status / 100 != 2) {
        push_problem(L, v, a->status);
    } else {
        value_push(L, model__without_nulls(&arena, v));
        n = 1;
    }
    arena_fini(&arena);
    entry_wake(&q->wait, n);
    free(q);
}

static void on_cancel(struct entry_wait *w)
{
    struct question *q = (struct question *)w;
    async_close(q->call);
    free(q);
}

// Send it. NULL, or what is wrong.
static const char *send_question(struct tui *t, struct question *q, struct op_values *g,
                                 const struct op *op)
{
    struct buf path = {.max = SIZE_MAX}, body = {.max = SIZE_MAX};
    struct err e = {0};
    int rc = ask_build((enum op_id)(op - ops), g->params, g->n, &path, &body, &e);
    struct client_request r = {
        .method = op_method_name(op->method), .path = buf_z(&path), .body = buf_str(&body)};
    rc = rc == 0 ? async_open(&q->call, &t->loop, &t->hub, &r, NULL, on_answer, q, &e) : rc;
    buf_fini(&path);
    buf_fini(&body);
    return rc < 0 ? arena_strdup(&g->a, str_of(e.msg)) : NULL;
}

static int lua_call_op(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    struct tui *t = ui__tui(L);
    struct op_values g = {0};
    struct json *values = NULL;
    struct err e = {0};
    const struct op *op = op_find(name);
    entry_check_wait(L);
    if (op == NULL || (op->flags & OP_STREAMS) != 0) {
        return luaL_error(L, "there is no operation '%s'", name);
    }
    struct question *q = xcalloc(1, sizeof *q);
    q->wait.cancel = on_cancel;
    const char *wrong = NULL;
    if (!lua_isnoneornil(L, 2) && value_read(&values, &g.a, L, 2, &e) < 0) {
        wrong = e.msg;
    }
    wrong = wrong == NULL ? take_values(t, &g, op, values) : wrong;
    wrong = wrong == NULL ? send_question(t, q, &g, op) : wrong;
    char text[256];
    snprintf(text, sizeof text, "%s", wrong != NULL ? wrong : "");
    arena_fini(&g.a);
    if (wrong != NULL) {
        free(q);
        lua_pushnil(L);
        lua_pushstring(L, text);
        return 2;
    }
    return entry_wait(L, &q->wait);
}

// ---- the rest of the library -----------------------------------------------------------------

static void set_field(lua_State *L, const char *key, struct str value)
{
    lua_pushlstring(L, value.p != NULL ? value.p : "", value.n);
    lua_setfield(L, -2, key);
}

static void push_params(lua_State *L, const struct op *op)
{
    struct str rest = str_of(op->params);
    struct op_param p;
    lua_newtable(L);
    for (lua_Integer i = 1; op_next_param(op, &rest, &p); i++) {
        lua_newtable(L);
        set_field(L, "name", p.name);
        set_field(L, "help", str_of(op_param_help(op, p.name)));
        lua_pushboolean(L, p.optional || str_eqz(p.name, "working_dir") || str_eqz(p.name, "env"));
        lua_setfield(L, -2, "optional");
        lua_rawseti(L, -2, i);
    }
}

/// afloat.ops(): the operations that can be called, {name, help, destroys, params}.
static int lua_ops(lua_State *L)
{
    lua_Integer n = 0;
    lua_newtable(L);
    for (size_t i = 0; i < OP__COUNT; i++) {
        if ((ops[i].flags & OP_STREAMS) != 0) {
            continue;
        }
        lua_newtable(L);
        set_field(L, "name", str_of(ops[i].name));
        set_field(L, "help", str_of(ops[i].help));
        lua_pushboolean(L, (ops[i].flags & OP_DESTROYS) != 0);
        lua_setfield(L, -2, "destroys");
        push_params(L, &ops[i]);
        lua_setfield(L, -2, "params");
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

static int lua_open(lua_State *L)
{
    struct str id = {0};
    id.p = luaL_optlstring(L, 1, "", &id.n);
    talk__open(ui__tui(L), id);
    return 0;
}

static int lua_note(lua_State *L)
{
    struct str text = {0};
    text.p = luaL_checklstring(L, 1, &text.n);
    app__note(ui__tui(L), text, luaL_optstring(L, 2, ""));
    return 0;
}

static int lua_notify(lua_State *L)
{
    struct str text = {0};
    text.p = luaL_checklstring(L, 1, &text.n);
    screen__notify(ui__tui(L), text);
    return 0;
}

static int lua_quit(lua_State *L)
{
    app__quit(ui__tui(L), 0);
    return 0;
}

/// A hub that is being started: that may take seconds, so on a thread.
struct starting {
    struct tui *t;
    int rc;
    struct err e;
};

static void start_work(void *arg)
{
    struct starting *s = arg;
    struct start_result r;
    s->rc = start_hub(s->t->o->home, &r, &s->e);
}

static void start_done(void *arg)
{
    struct starting *s = arg;
    if (s->rc < 0 && !s->t->over) {
        app__note(s->t, str_of(s->e.msg), "bad");
    } // else its events are followed soon
    free(s);
}

/// afloat.start(): start the hub again.
static int lua_start(lua_State *L)
{
    struct starting *s = xcalloc(1, sizeof *s);
    s->t = ui__tui(L);
    struct lane *lane = lane_open(&s->t->loop, "start", 1);
    work_submit(lane, 0, start_work, start_done, s);
    lane_close(lane);
    return 0;
}

static int lua_redraw(lua_State *L)
{
    ui__tui(L)->screen.whole = true;
    app__changed(ui__tui(L), true);
    return 0;
}

static int lua_focus_move(lua_State *L)
{
    ui__tui(L)->focus_by = luaL_checkinteger(L, 1) < 0 ? -1 : 1; // when this code has ended
    app__changed(ui__tui(L), true);
    return 0;
}

// The node with the id in the first argument; NULL: it is not on the screen.
static struct node *check_node(lua_State *L, const struct tui *t)
{
    struct str id = {0};
    id.p = luaL_checklstring(L, 1, &id.n);
    vec_foreach (n, &t->nodes) {
        if (str_eq((*n)->id, id)) {
            return *n;
        }
    }
    return NULL;
}

/// afloat.scroll(id, pages): scroll what has that id; back by a negative number.
static int lua_scroll(lua_State *L)
{
    struct tui *t = ui__tui(L);
    const struct node *n = check_node(L, t);
    lua_Integer pages = luaL_checkinteger(L, 2);
    if (n != NULL) {
        scroll__by(t, n, (int)MIN(MAX(pages, -PAGES_MAX), PAGES_MAX) * MAX(n->inner.rows - 1, 1));
    }
    return 0;
}

/// afloat.chosen(id): the id, or else the number, of what is chosen in a list; nil: there is nothing.
static int lua_chosen(lua_State *L)
{
    struct tui *t = ui__tui(L);
    const struct node *n = check_node(L, t);
    size_t number;
    const struct json *id = n != NULL ? list__chosen(t, n, &number) : NULL;
    if (n == NULL || number == 0) {
        return 0;
    }
    if (id != NULL) {
        value_push(L, id);
    } else {
        lua_pushinteger(L, (lua_Integer)number);
    }
    return 1;
}

/// afloat.rows(text, cols): how many rows a text node of this width takes, at least 1.
static int lua_rows(lua_State *L)
{
    struct str text = {0};
    text.p = luaL_checklstring(L, 1, &text.n);
    lua_Integer cols = luaL_checkinteger(L, 2);
    int rows = text__rows(ui__tui(L), text, (int)MIN(MAX(cols, 1), 10000));
    lua_pushinteger(L, MAX(rows, 1));
    return 1;
}

static int lua_details(lua_State *L)
{
    talk__set_details(ui__tui(L), lua_toboolean(L, 1));
    return 0;
}

int call__open_lib(lua_State *L)
{
    static const luaL_Reg functions[] = {{"call", lua_call_op},    {"ops", lua_ops},
                                         {"open", lua_open},       {"note", lua_note},
                                         {"notify", lua_notify},   {"quit", lua_quit},
                                         {"redraw", lua_redraw},   {"focus_move", lua_focus_move},
                                         {"details", lua_details}, {"scroll", lua_scroll},
                                         {"chosen", lua_chosen},   {"rows", lua_rows},
                                         {"start", lua_start},     {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
