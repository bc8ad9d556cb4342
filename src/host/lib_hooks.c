// What a file offers and listens to: the libraries `hooks` and `events`, and the function `tool`.
//
// Registrations are made while the file loads; the hub hears of each at once and decides again by
// itself, so the tables here are there to give the author of the file a good message, not to
// protect anybody.

#include "host/host_int.h"

/// The points that are open to agents, and whether what a handler returns there counts.
static const struct {
    const char *name;
    bool chain;
} points[] = {
    {"on_begin", false}, {"on_user_message", true}, {"on_tool_result", true},
    {"on_final", true},  {"on_done", false},
};

/// Events that say nothing about anybody's session.
static const char *const open_events[] = {
    "generation.committed", "hub.started",     "plugin.changed", "plugin.error",
    "plugin.loaded",        "plugin.unloaded", "tools.changed",
};

static const char OWN_EVENTS[] = "improvement.";

// ---- handlers ------------------------------------------------------------------------------

/// Keep the function at `fn`. Returns its number, which the hub calls it by.
static size_t add_handler(lua_State *L, int fn, enum far__kind kind, const char *name,
                          const char *title)
{
    struct far *f = far__of(L);
    lua_pushvalue(L, fn);
    const struct far__handler h = {
        .kind = kind,
        .name = xstrdup(name),
        .title = title != NULL ? xstrdup(title) : NULL,
        .fn = refs_take(L, f->owner),
        .answers = kind == FAR__TOOL,
    };
    vec_push(&f->handlers, h);
    return f->handlers.n - 1;
}

/// Raises unless one more thing may be registered now.
static struct far *check_loading(lua_State *L)
{
    struct far *f = far__of(L);
    if (!f->loading) {
        luaL_error(L, "this is only possible while the file loads");
    }
    if (f->handlers.n >= FAR__HANDLERS) {
        luaL_error(L, "more than %d registrations", FAR__HANDLERS);
    }
    return f;
}

static void begin_register(struct far *f, struct jw *w, const char *kind)
{
    far__begin(f, w, "register", 0);
    jw_kstrz(w, "kind", kind);
}

// ---- hooks ---------------------------------------------------------------------------------

/// "final" and "on_final" mean the same.
static int find_point(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        if (str_eqz(name, points[i].name) || str_eqz(name, points[i].name + strlen("on_"))) {
            return (int)i;
        }
    }
    return -1;
}

static struct str check_str(lua_State *L, int arg)
{
    struct str s;
    s.p = luaL_checklstring(L, arg, &s.n);
    return s;
}

/// An integer member of the options at `idx`, 0 when there is none.
static lua_Integer opt_integer(lua_State *L, int idx, const char *key)
{
    lua_Integer v = 0;
    if (lua_istable(L, idx)) {
        lua_pushstring(L, key);
        lua_rawget(L, idx);
        v = lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    return v;
}

static const char *opt_string(lua_State *L, int idx, const char *key)
{
    const char *v = NULL;
    if (lua_istable(L, idx)) {
        lua_pushstring(L, key);
        lua_rawget(L, idx); // stays on the stack: the text is borrowed from it
        v = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    }
    return v;
}

static void announce_hook(struct far *f, lua_State *L, int point, size_t handler)
{
    struct jw w;
    const char *tool = opt_string(L, 4, "tool");
    begin_register(f, &w, "hook");
    jw_kstrz(&w, "point", points[point].name);
    jw_kint(&w, "handler", (int64_t)handler);
    jw_kstrz(&w, "name", f->handlers.p[handler].title);
    jw_kint(&w, "priority", opt_integer(L, 4, "priority"));
    jw_kint(&w, "timeout_ms", opt_integer(L, 4, "timeout_ms"));
    if (tool != NULL) {
        jw_kstrz(&w, "tool", tool);
    }
    far__send(f, &w);
}

/// (event, name, fn, opts), as in the hub.
static int register_hook(lua_State *L, bool intercept)
{
    struct str event = check_str(L, 1);
    const char *title = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TFUNCTION);
    lua_settop(L, 4);
    int at = find_point(event);
    if (at < 0) {
        return far__nil(L, "'%s' is not open to improvements", lua_tostring(L, 1));
    }
    if (intercept && !points[at].chain) {
        return far__nil(L, "'%s' can be observed only", points[at].name);
    }
    struct far *f = check_loading(L);
    size_t handler = add_handler(L, 3, FAR__HOOK, points[at].name, title);
    f->handlers.p[handler].answers = intercept;
    announce_hook(f, L, at, handler);
    lua_pushboolean(L, true);
    return 1;
}

static int hooks_on(lua_State *L)
{
    return register_hook(L, false);
}

static int hooks_intercept(lua_State *L)
{
    return register_hook(L, true);
}

/// (event, name): the handlers of that name are not run any more.
static int remove_hook(lua_State *L, bool intercept)
{
    struct far *f = far__of(L);
    int at = find_point(check_str(L, 1));
    const char *title = luaL_checkstring(L, 2);
    bool found = false;
    vec_foreach (h, &f->handlers) {
        if (at >= 0 && h->kind == FAR__HOOK && h->answers == intercept && !h->off &&
            strcmp(h->name, points[at].name) == 0 && strcmp(h->title, title) == 0) {
            h->off = found = true;
        }
    }
    lua_pushboolean(L, found);
    return 1;
}

static int hooks_off(lua_State *L)
{
    return remove_hook(L, false);
}

static int hooks_unintercept(lua_State *L)
{
    return remove_hook(L, true);
}

// ---- tools ---------------------------------------------------------------------------------

/// Push member `key` of the table at 1, raw.
static int push_member(lua_State *L, const char *key)
{
    lua_pushstring(L, key);
    return lua_rawget(L, 1);
}

/// Write member `key` of the table at 1 if it is there. False: it cannot be sent, see `e`.
static bool copy_member(lua_State *L, struct jw *w, const char *key, struct err *e)
{
    struct arena a;
    struct json *v = NULL;
    bool ok = true;
    arena_init(&a);
    if (push_member(L, key) != LUA_TNIL) {
        ok = value_read(&v, &a, L, -1, e) == 0;
    }
    if (v != NULL) {
        jw_key(w, key);
        jw_value(w, v);
    }
    lua_pop(L, 1);
    arena_fini(&a);
    return ok;
}

/// The members of a tool as they go to the hub, into `text`, checked before anything is kept.
static bool describe_tool(lua_State *L, struct buf *text, struct err *e)
{
    static const char *const members[] = {"name", "description", "input", "input_schema"};
    struct jw w;
    bool ok = true;
    jw_init(&w, text);
    jw_obj(&w);
    jw_kstrz(&w, "type", "register");
    jw_kstrz(&w, "kind", "tool");
    for (size_t i = 0; i < ARRAY_LEN(members) && ok; i++) {
        ok = copy_member(L, &w, members[i], e);
    }
    jw_end_obj(&w);
    return ok;
}

static int tool(lua_State *L)
{
    struct err e = {0};
    struct buf text;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct far *f = check_loading(L);
    luaL_argcheck(L, push_member(L, "name") == LUA_TSTRING, 1, "a tool has a name");
    luaL_argcheck(L, push_member(L, "run") == LUA_TFUNCTION, 1, "a tool has a function 'run'");
    buf_init(&text, SIZE_MAX);
    if (!describe_tool(L, &text, &e)) {
        buf_fini(&text);
        return luaL_error(L, "%s", e.msg);
    }
    add_handler(L, 3, FAR__TOOL, lua_tostring(L, 2), NULL);
    buf_adds(&f->out, buf_str(&text));
    buf_addc(&f->out, '\n');
    buf_fini(&text);
    return 0;
}

// ---- events --------------------------------------------------------------------------------

static bool may_hear(struct str name)
{
    bool open = str_starts(name, OWN_EVENTS);
    for (size_t i = 0; i < ARRAY_LEN(open_events); i++) {
        open = open || str_eqz(name, open_events[i]);
    }
    return open;
}

static int events_on(lua_State *L)
{
    struct jw w;
    struct str name = check_str(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    if (!may_hear(name)) {
        return far__nil(L, "'%s' is not open to improvements", lua_tostring(L, 1));
    }
    struct far *f = check_loading(L);
    size_t id = add_handler(L, 2, FAR__EVENT, name.p, NULL);
    begin_register(f, &w, "event");
    jw_kstr(&w, "name", name);
    far__send(f, &w);
    lua_pushinteger(L, (lua_Integer)id + 1);
    return 1;
}

static int events_off(lua_State *L)
{
    struct far *f = far__of(L);
    lua_Integer id = luaL_checkinteger(L, 1);
    bool found = id >= 1 && (size_t)id <= f->handlers.n &&
                 f->handlers.p[id - 1].kind == FAR__EVENT && !f->handlers.p[id - 1].off;
    if (found) {
        f->handlers.p[id - 1].off = true;
    }
    lua_pushboolean(L, found);
    return 1;
}

static int events_emit(lua_State *L)
{
    struct far *f = far__of(L);
    struct str name = check_str(L, 1);
    struct arena a;
    struct json *data;
    struct err e = {0};
    struct jw w;
    lua_settop(L, 2);
    if (!str_starts(name, OWN_EVENTS)) {
        return far__nil(L, "an improvement may emit 'improvement.*' only");
    }
    arena_init(&a);
    if (value_read(&data, &a, L, 2, &e) < 0) {
        arena_fini(&a);
        return far__nil(L, "%s", e.msg);
    }
    far__begin(f, &w, "call", ++f->last_call);
    jw_kstrz(&w, "op", "event.emit");
    jw_key(&w, "params");
    jw_obj(&w);
    jw_kstr(&w, "name", name);
    jw_key(&w, "data");
    jw_value(&w, data);
    jw_end_obj(&w);
    far__send(f, &w);
    arena_fini(&a);
    lua_pushboolean(L, true);
    return 1;
}

// ---- opening -------------------------------------------------------------------------------

int far__open_hooks(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"on", hooks_on},
        {"off", hooks_off},
        {"intercept", hooks_intercept},
        {"unintercept", hooks_unintercept},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}

int far__open_events(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"on", events_on}, {"off", events_off}, {"emit", events_emit}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}

int far__open_tool(lua_State *L)
{
    lua_pushcfunction(L, tool);
    return 1;
}
