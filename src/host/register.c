// What a file offers and listens to: hooks, events and tools. The libraries `hooks` and `events`
// (lua/lib_hooks.c, lib_events.c) use this; `tool` and `hub` are here whole.
//
// Registrations are made while the file loads; the hub hears of each at once and decides again by
// itself, so the checks here give the author of the file a good message and protect nothing.

#include "hook/points.h"
#include "host/host_int.h"
#include "proto/events.h"

// ---- handlers ------------------------------------------------------------------------------

/// Keep the function at `fn`. Returns its number, which the hub calls it by.
static size_t add_handler(lua_State *L, int fn, enum far__kind kind, const char *name,
                          const char *title)
{
    struct far *f = far__of(L);
    assert(lua_isfunction(L, fn) && f->handlers.n < FAR__HANDLERS);
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

/// Raise unless one more thing may be registered now.
static void check_room(lua_State *L, const char *who)
{
    if (!lib_is_loading(L)) {
        luaL_error(L, "%s: this is only possible while the file loads", who);
    }
    if (far__of(L)->handlers.n >= FAR__HANDLERS) {
        luaL_error(L, "%s: no more than %d registrations at once", who, FAR__HANDLERS);
    }
}

static void begin_register(struct far *f, struct jw *w, const char *kind)
{
    far__begin(f, w, "register", 0);
    jw_kstrz(w, "kind", kind);
}

/// Begin a call of an operation; its parameters follow, then jw_end_obj() and far__send().
static void begin_call(struct far *f, struct jw *w, const char *op)
{
    far__begin(f, w, "call", ++f->last_call);
    jw_kstrz(w, "op", op);
    jw_kobj(w, "params");
}

// ---- hooks ---------------------------------------------------------------------------------

/// The point of that name, with or without its "on_"; NULL: there is none, or it is not open.
static const struct hook_point *find_open(struct str name)
{
    const struct hook_point *p = hook_point_find(name);
    return p != NULL && p->open ? p : NULL;
}

static int hook_add(lua_State *L, const char *who, const struct lib_hook *h)
{
    struct far *f = far__of(L);
    struct jw w;
    const struct hook_point *p = find_open(h->point);
    if (p == NULL) {
        return args_fail(L, "%s: '%s' is not open to improvements", who, h->point.p);
    }
    if (h->chain && p->kind != HOOK_CHAIN) {
        return args_fail(L, "%s: '%s' can be observed only", who, p->name);
    }
    if (h->block) {
        return args_fail(L, "%s: on_error = 'block' is not open to improvements", who);
    }
    check_room(L, who);
    size_t handler = add_handler(L, 3, FAR__HOOK, p->name, h->name.p);
    f->handlers.p[handler].answers = h->chain;
    begin_register(f, &w, "hook");
    jw_kstrz(&w, "point", p->name);
    jw_kint(&w, "handler", (int64_t)handler);
    jw_kstr(&w, "name", h->name);
    jw_kint(&w, "priority", h->priority);
    jw_kint(&w, "timeout_ms", h->timeout_ms);
    if (h->tool.n != 0) {
        jw_kstr(&w, "tool", h->tool);
    }
    far__send(f, &w);
    return args_bool(L, true);
}

static bool hook_off(lua_State *L, const struct lib_hook *h)
{
    struct far *f = far__of(L);
    const struct hook_point *p = find_open(h->point);
    bool found = false;
    vec_foreach (it, &f->handlers) {
        if (p != NULL && it->kind == FAR__HOOK && it->answers == h->chain && !it->off &&
            strcmp(it->name, p->name) == 0 && str_eqz(h->name, it->title)) {
            it->off = found = true;
        }
    }
    return found;
}

const struct lib_hooks far__hooks = {.add = hook_add, .off = hook_off};

// ---- tools ---------------------------------------------------------------------------------

static int tool(lua_State *L)
{
    static const char *const members[] = {"name", "description", "input", "input_schema"};
    struct json *values[ARRAY_LEN(members)] = {0};
    struct err e = {0};
    struct jw w;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    check_room(L, "tool");
    args_field(L, 1, "name");
    luaL_argcheck(L, lua_type(L, 2) == LUA_TSTRING, 1, "a tool has a name");
    args_field(L, 1, "run");
    luaL_argcheck(L, lua_isfunction(L, 3), 1, "a tool has a function 'run'");
    struct arena *a = &args_scratch(L)->arena;
    for (size_t i = 0; i < ARRAY_LEN(members); i++) { // checked before anything is kept
        if (args_field(L, 1, members[i]) && value_read(&values[i], a, L, -1, &e) < 0) {
            return luaL_error(L, "%s", e.msg);
        }
        lua_pop(L, 1);
    }
    struct far *f = far__of(L);
    add_handler(L, 3, FAR__TOOL, lua_tostring(L, 2), NULL);
    begin_register(f, &w, "tool");
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        if (values[i] != NULL) {
            jw_kvalue(&w, members[i], values[i]);
        }
    }
    far__send(f, &w);
    return 0;
}

// ---- events --------------------------------------------------------------------------------

static int lib_on(lua_State *L, const char *who, struct str name)
{
    struct far *f = far__of(L);
    struct jw w;
    if (!event_type_is_open(name)) {
        return args_fail(L, "%s: '%s' is not open to improvements", who, name.p);
    }
    check_room(L, who);
    size_t at = add_handler(L, 2, FAR__EVENT, name.p, NULL);
    begin_register(f, &w, "event");
    jw_kstr(&w, "name", name);
    far__send(f, &w);
    lua_pushinteger(L, (lua_Integer)at + 1);
    return 1;
}

static bool lib_off(lua_State *L, uint64_t id)
{
    struct far *f = far__of(L);
    struct far__handler *h = id >= 1 && id <= f->handlers.n ? &f->handlers.p[id - 1] : NULL;
    bool found = h != NULL && h->kind == FAR__EVENT && !h->off;
    if (found) {
        h->off = true;
    }
    return found;
}

static int lib_emit(lua_State *L, const char *who, struct str name, const struct json *data)
{
    struct far *f = far__of(L);
    struct jw w;
    if (!str_starts(name, "improvement.")) {
        return args_fail(L, "%s: an improvement may emit 'improvement.*' only", who);
    }
    begin_call(f, &w, "event.emit");
    jw_kstr(&w, "name", name);
    jw_kvalue(&w, "data", data);
    jw_end_obj(&w);
    far__send(f, &w);
    return args_bool(L, true);
}

const struct lib_events far__events = {.on = lib_on, .off = lib_off, .emit = lib_emit};

// ---- hub -----------------------------------------------------------------------------------

static int hub_get_worktrees(lua_State *L)
{
    struct far *f = far__of(L);
    struct jw w;
    entry_check_wait(L);
    begin_call(f, &w, "worktree.list");
    jw_end_obj(&w);
    far__send(f, &w);
    return far__wait_call(L, f->last_call);
}

const luaL_Reg far__hub[] = {{"get_worktrees", hub_get_worktrees}, {NULL, NULL}};

int far__open_tool(lua_State *L)
{
    lua_pushcfunction(L, tool);
    return 1;
}
