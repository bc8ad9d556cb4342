// hub.<noun>.<verb>(params, callback): every operation that proto/ops.def marks for Lua (OP_LUA).
//
//     hub.session.show{id = s} ── params as JSON values ── op_check_params ── next turn: op_run ┄┄> api/
//         value | nil, message, code  <── push_answer <┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ op_answer, op_fail <┄┄┄┄┄┄┘
//
// There is no HTTP and no request text: the handler gets the values of the Lua table. It runs from the loop, not on the
// stack of the Lua code, because it may run other handlers or reload the plugin that calls it. Every call that has begun
// is answered once, even if the calling code is gone: the request lives until then.
//
// A noun is a read-only table that is made on first use, so a state that uses no operation pays nothing. An operation
// without a verb (hub.reload{}) is a call of its noun. hub.sessions, hub.send and `worktree` are older names of some
// operations; a wrong argument raises, as everywhere in bind/.

#include <lauxlib.h>

#include "api/op.h"
#include "bind/bind_int.h"
#include "bind/faces.h"
#include "bind/loader.h"

enum { TEXT_MAX = 1 << 20, LIST_MAX = 1000 };

/// How a function calls its operation.
struct op_how {
    enum op_id id;
    const char *fn;     // "hub.send", for messages
    const char *member; // of the answer, instead of all of it; "": true
    int callback;       // index of the argument
    bool strict;        // wrong parameters raise
};

struct op_request {
    struct bind_op op;
    struct op_call call;
    struct arena arena;
    char fn[64];
    const char *member;
};

// ---- the answer ---------------------------------------------------------------------------------

static int push_problem(lua_State *L, const char *fn, enum problem p, const char *detail,
                        const char *hint)
{
    bool more = hint != NULL && hint[0] != '\0';
    args_fail(L, "%s: %s%s%s", fn, detail, more ? "; " : "", more ? hint : "");
    lua_pushstring(L, problems[p].code);
    return 3;
}

static int push_answer(lua_State *L, struct op_request *q, struct str json)
{
    struct json *v;
    struct err e = {0};
    if (q->member != NULL && q->member[0] == '\0') {
        lua_pushboolean(L, 1);
    } else if (json_parse(&v, &q->arena, json, NULL, &e) == 0) {
        value_push(L, q->member != NULL ? json_get(v, q->member) : v);
    } else {
        return push_problem(L, q->fn, PROBLEM_INTERNAL, e.msg, NULL);
    }
    return 1;
}

static void free_request(struct op_request *q)
{
    arena_fini(&q->arena);
    free(q);
}

static void on_answer(struct op_call *c, int status, const char *content_type, struct str body)
{
    struct op_request *q = container_of(c, struct op_request, call);
    lua_State *L = bind__op_answer_begin(&q->op);
    (void)status;
    assert(strcmp(content_type, "application/json") == 0); // OP_TEXT is not for Lua
    (void)content_type;
    if (L != NULL) {
        bind__op_answer(&q->op, push_answer(L, q, body));
    }
    free_request(q);
}

static void on_fail(struct op_call *c, enum problem p, struct str detail, const char *hint)
{
    struct op_request *q = container_of(c, struct op_request, call);
    lua_State *L = bind__op_answer_begin(&q->op);
    if (L != NULL) {
        const char *text = arena_strdup(&q->arena, detail);
        (void)hint; // for those who type commands or requests
        bind__op_answer(&q->op, push_problem(L, q->fn, p, text, NULL));
    }
    free_request(q);
}

static const struct op_face face = {.answer = on_answer, .fail = on_fail};

// ---- the call -----------------------------------------------------------------------------------

static void start(void *arg)
{
    struct op_request *q = arg;
    if (q->op.over) { // the calling code is gone, perhaps all of bind/
        free_request(q);
        return;
    }
    struct bind *b = q->op.o->bind;
    if (b->run_op != NULL) {
        b->run_op(b->api, &q->call);
    } else {
        op_fail(&q->call, PROBLEM_STOPPING, NULL,
                "the hub is starting or stopping; try again later");
    }
}

/// Run an operation with the table at `params` (nil: none), after bind__op_check().
static int run(lua_State *L, const struct op_how *how, int params)
{
    struct args_scratch *s = args_scratch(L);
    static struct json nothing = {.type = JSON_OBJ};
    struct json *given = &nothing;
    struct op_fault fault = {.problem = PROBLEM_INVALID_BODY};
    struct err e = {0};
    assert((ops[how->id].flags & OP_LUA) != 0);
    bool good = true;
    if (!lua_isnil(L, params)) {
        good = value_read(&given, &s->arena, L, params, &e) == 0;
        snprintf(fault.detail, sizeof fault.detail, "%.190s", e.msg);
        if (good && given->type != JSON_OBJ) {
            good = false;
            snprintf(fault.detail, sizeof fault.detail,
                     "parameters must be a table with named fields");
        }
    }
    if (!good || !op_check_params(how->id, OP_BY_PLUGIN, given, &fault)) {
        int n = push_problem(L, how->fn, fault.problem, fault.detail, fault.hint);
        return how->strict ? luaL_error(L, "%s", lua_tostring(L, -2)) : n;
    }
    struct op_request *q = xcalloc(1, sizeof *q);
    int refused = bind__op_charge(L, &q->op, sizeof *q + s->arena.used, how->fn);
    if (refused != 0) {
        free(q);
        return refused;
    }
    q->arena = s->arena; // from here on nothing raises
    s->arena = (struct arena){0};
    snprintf(q->fn, sizeof q->fn, "%s", how->fn);
    q->member = how->member;
    q->call = (struct op_call){.id = how->id,
                               .params = given,
                               .arena = &q->arena,
                               .last_event_id = UINT64_MAX,
                               .face = &face};
    loop_defer(bind_of(L)->o.hub->loop, start, q);
    return bind__op_begin(L, &q->op, how->callback, NULL); // start() or the answer frees it
}

/// An operation; upvalues: its id, and whether the first argument is the noun that was called.
static int l_op(lua_State *L)
{
    enum op_id id = (enum op_id)lua_tointeger(L, lua_upvalueindex(1));
    assert(id < OP__COUNT);
    if (lua_toboolean(L, lua_upvalueindex(2))) {
        lua_remove(L, 1);
    }
    char fn[64];
    snprintf(fn, sizeof fn, "hub.%s", ops[id].name);
    if (lua_isfunction(L, 1) && lua_gettop(L) == 1) { // a callback alone
        lua_pushnil(L);
        lua_insert(L, 1);
    }
    lua_settop(L, 2);
    bind__op_check(L, 2, fn);
    return run(L, &(struct op_how){.id = id, .fn = fn, .callback = 2}, 1);
}

// ---- functions that are not operations -----------------------------------------------------------------------

static int l_generation(lua_State *L)
{
    const struct gen *g = gen_current(bind_of(L)->o.engine);
    lua_pushinteger(L, g != NULL ? (lua_Integer)gen_number(g) : 0);
    return 1;
}

static int l_report(lua_State *L)
{
    const struct gen_report *r = gen_last_report(bind_of(L)->o.engine);
    if (r == NULL) {
        return args_fail(L, "hub.report: there was no reload yet");
    }
    loader_push_report(L, r);
    return 1;
}

static int l_get_worktrees(lua_State *L)
{
    bind__worktrees_push(bind_of(L), L);
    return 1;
}

// ---- nouns --------------------------------------------------------------------------------------

/// Is `op` for Lua, of that noun? `*verb` is "" for the noun itself.
static bool is_of(const struct op *op, const char *noun, const char **verb)
{
    size_t n = strlen(noun);
    if ((op->flags & OP_LUA) == 0 || strncmp(op->name, noun, n) != 0 ||
        (op->name[n] != '.' && op->name[n] != '\0')) {
        return false;
    }
    *verb = op->name[n] == '.' ? op->name + n + 1 : "";
    *verb = strcmp(*verb, "end") == 0 ? "end_" : *verb; // the one word that is Lua's own
    return true;
}

/// hub[noun] for what is not there yet; upvalue: the nouns that were made.
static int l_noun(lua_State *L)
{
    const char *noun = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "", *verb;
    lua_settop(L, 2);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
        return 1;
    }
    lua_newtable(L); // 4: the verbs
    lua_pushnil(L);  // 5: what a call of the noun does
    bool any = false;
    for (size_t i = 0; i < OP__COUNT; i++) {
        if (is_of(&ops[i], noun, &verb)) {
            any = true;
            lua_pushinteger(L, (lua_Integer)i);
            lua_pushboolean(L, verb[0] == '\0');
            lua_pushcclosure(L, l_op, 2);
            verb[0] == '\0' ? lua_replace(L, 5) : lua_setfield(L, 4, verb);
        }
    }
    if (!any) {
        return 0;
    }
    if (strcmp(noun, "generation") == 0) { // hub.generation() is older than its operations
        lua_pushcfunction(L, l_generation);
        lua_replace(L, 5);
    }
    bind__push_sealed(L, 4);
    lua_getmetatable(L, -1);
    lua_pushvalue(L, 5);
    lua_setfield(L, -2, "__call");
    lua_pop(L, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, lua_upvalueindex(1));
    return 1;
}

// ---- older names --------------------------------------------------------------------------------

/// Functions that take the parameters of an operation one by one.
static const struct older {
    const char *fn; // "hub.send"
    enum op_id id;
    const char *member; // as in struct op_how
    struct {
        const char *key, *what; // `what` is its name in messages
    } params[2];
} older[] = {
    {"hub.sessions", OP_SESSION_LIST, "sessions", {{NULL, NULL}}},
    {"hub.send", OP_SESSION_MESSAGE, "", {{"id", "session"}, {"text", "text"}}},
    {"worktree.remove", OP_WORKTREE_REMOVE, "", {{"path", "path"}}},
    {"worktree.list", OP_WORKTREE_LIST, "worktrees", {{"repo", "repo"}}},
};

/// A row of `older`; its number is the upvalue. All parameters are texts without NUL bytes.
static int l_older(lua_State *L)
{
    const struct older *f = &older[lua_tointeger(L, lua_upvalueindex(1))];
    int n = 0;
    while (n < (int)ARRAY_LEN(f->params) && f->params[n].key != NULL) {
        n++;
    }
    lua_settop(L, n + 1); // and the callback
    lua_newtable(L);
    for (int i = 0; i < n; i++) {
        (void)args_z(L, i + 1, f->fn, f->params[i].what);
        lua_pushvalue(L, i + 1);
        lua_setfield(L, n + 2, f->params[i].key);
    }
    bind__op_check(L, n + 1, f->fn);
    if (f->id == OP_SESSION_LIST) {
        lua_pushinteger(L, LIST_MAX);
        lua_setfield(L, n + 2, "limit");
    }
    size_t size = f->id == OP_SESSION_MESSAGE ? lua_rawlen(L, 2) : 1;
    if (size == 0 || size > TEXT_MAX) {
        return args_fail(L, "hub.send: a message has 1 to %d bytes", TEXT_MAX);
    }
    return run(L, &(struct op_how){f->id, f->fn, f->member, n + 1, true}, n + 2);
}

/// Put those of a module into the table on top.
static void add_older(lua_State *L, const char *module)
{
    size_t n = strlen(module);
    for (size_t i = 0; i < ARRAY_LEN(older); i++) {
        if (strncmp(older[i].fn, module, n) == 0) {
            lua_pushinteger(L, (lua_Integer)i);
            lua_pushcclosure(L, l_older, 1);
            lua_setfield(L, -2, older[i].fn + n);
        }
    }
}

static int l_create(lua_State *L)
{
    static const struct op_how how = {OP_WORKTREE_CREATE, "worktree.create", NULL, 2, true};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    bind__op_check(L, 2, how.fn);
    return run(L, &how, 1);
}

int face_worktree(lua_State *L)
{
    lua_newtable(L);
    lua_pushcfunction(L, l_create);
    lua_setfield(L, -2, "create");
    add_older(L, "worktree.");
    return 1;
}

/// The module `pty`: the operations on terminals, as hub.pty has them.
int face_pty(lua_State *L)
{
    const char *verb;
    lua_newtable(L);
    for (size_t i = 0; i < OP__COUNT; i++) {
        if (is_of(&ops[i], "pty", &verb)) {
            lua_pushinteger(L, (lua_Integer)i);
            lua_pushboolean(L, false);
            lua_pushcclosure(L, l_op, 2);
            lua_setfield(L, -2, verb);
        }
    }
    return 1;
}

int face_hub(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"report", l_report}, {"get_worktrees", l_get_worktrees}, {NULL, NULL}};
    luaL_newlib(L, functions);
    add_older(L, "hub.");
    lua_createtable(L, 0, 1);
    lua_newtable(L); // the nouns that were made
    lua_pushcclosure(L, l_noun, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    return 1;
}
