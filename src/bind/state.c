// hub.state: what survives reloads, and the log that undoes what a failed load did to it.
//
//     values (a Lua table: key to value)          log, while a transaction is under way
//     ┌─────────────┐                             ┌──────────────────────────────────────────┐
//     │ "sessions"  │ <── get, set, clear ──────> │ who, key, what was there before          │
//     │ "Agent"     │ <── class ────────────────> │ who, key, copies of the class's fields   │
//     └─────────────┘                             └──────────────────────────────────────────┘
//
// A class is a table that instances have as metatable. class(key) gives the same table each time, so
// that live instances get what the new file defines. When a file that loads asks for it for the first
// time, the functions that a former version of this file defined are removed, so that functions which it no longer defines
// are gone; those of other files stay, and code that is not being loaded changes nothing. Loading, judging and committing
// happen in one turn of the loop: only the loading code can see the class half-made, and when that code is not taken every
// field is restored.
//
// Two versions that wrote the same key in one transaction are connected in the space: one cannot be undone without the
// other.
//
// Invariants:
//   - the log is empty outside of a transaction, and holds only changes of versions that still exist.
//   - changes are undone from the last to the first; one whose key a taken version wrote later is skipped.

#include "bind/state.h"

#include <lauxlib.h>

#include "bind/modules_int.h"
#include "bind/state_int.h"
#include "lua/entry.h"
#include "lua/value.h"

static const char state_key;       // where a Lua state keeps its hub.state
static struct version one_version; // stands for the one that loads when there is no other

static struct state *state_of(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
    struct state *st = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return st;
}

// ---- the table of values --------------------------------------------------------------------

/// Push the value of the key at `idx`.
static void push_value(struct state *st, lua_State *L, int idx)
{
    idx = lua_absindex(L, idx);
    refs_push(L, st->values);
    lua_pushvalue(L, idx);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

/// Keep the value on top under `key`; pops it.
static void put_value(struct state *st, lua_State *L, const char *key)
{
    refs_push(L, st->values);
    lua_insert(L, -2);
    value_set(L, key);
    lua_pop(L, 1);
}

/// Does a version of the file that loads as `v` define the function on top? In a state of its own every
/// function is the plugin's.
static bool is_own_function(lua_State *L, const struct version *v)
{
    lua_Debug d;
    if (!lua_isfunction(L, -1)) {
        return false;
    }
    lua_pushvalue(L, -1);
    lua_getinfo(L, ">S", &d);
    if (v == &one_version || d.source[0] != '@') {
        return v == &one_version;
    }
    const struct version *former = v->module->twin->live;
    return strcmp(d.source + 1, v->text->path) == 0 ||
           (former != NULL && strcmp(d.source + 1, former->text->path) == 0);
}

/// Take out of the table at `idx` the functions of `v`.
static void remove_functions(lua_State *L, int idx, const struct version *v)
{
    lua_pushnil(L);
    while (lua_next(L, idx) != 0) {
        bool own = is_own_function(L, v);
        lua_pop(L, 1);
        if (own) {
            lua_pushvalue(L, -1);
            lua_pushnil(L);
            lua_rawset(L, idx);
        }
    }
}

// ---- the log --------------------------------------------------------------------------------

/// The version whose load changes the state now; NULL: changes are not logged.
static struct version *loader_of(struct state *st, lua_State *L)
{
    if (!st->logging || st->alone) {
        return st->logging ? &one_version : NULL;
    }
    struct space *sp = space__of(L);
    return sp->loading.n != 0 ? *vec_last(&sp->loading) : NULL;
}

/// Connect `v` with the versions that changed `key` before in this run.
static void note_shared(struct state *st, lua_State *L, const char *key, struct version *v)
{
    struct space *sp = st->alone ? NULL : space__of(L);
    for (size_t i = 0; sp != NULL && sp->stage != NULL && i < st->log.n; i++) {
        const struct state__change *e = &st->log.p[i];
        if (e->by != v && strcmp(e->key, key) == 0) {
            vec_push(&sp->edges, e->by);
            vec_push(&sp->edges, v);
        }
    }
}

/// Before `key` changes: log its value. `fields`: it is a class, whose table changes.
static void write_down(struct state *st, lua_State *L, const char *key, bool fields)
{
    struct version *v = loader_of(st, L);
    if (v == NULL) {
        return;
    }
    struct state__change e = {.by = v};
    note_shared(st, L, key, v);
    lua_pushstring(L, key);
    push_value(st, L, -1);
    if (fields && lua_istable(L, -1)) {
        lua_newtable(L);
        value_copy_fields(L, -2, -1);
        e.fields = refs_take(L, st->own);
    }
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
    } else {
        e.before = refs_take(L, st->own);
    }
    lua_pop(L, 1);
    e.key = xstrdup(key); // nothing raises from here on
    vec_push(&st->log, e);
}

// ---- what Lua sees --------------------------------------------------------------------------

static const char *check_key(lua_State *L)
{
    luaL_argcheck(L, lua_type(L, 1) == LUA_TSTRING, 1, "the key must be a string");
    const char *key = lua_tostring(L, 1);
    luaL_argcheck(L, strlen(key) == lua_rawlen(L, 1), 1, "the key must not hold a NUL byte");
    return key;
}

static int lib_get(lua_State *L)
{
    struct state *st = state_of(L);
    const char *key = check_key(L);
    lua_settop(L, 2);
    push_value(st, L, 1);
    if (!lua_isnil(L, -1)) {
        struct version *v = loader_of(st, L);
        if (v != NULL) {
            note_shared(st, L, key, v);
        }
        return 1;
    }
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    }
    write_down(st, L, key, false);
    lua_pushvalue(L, 2);
    put_value(st, L, key);
    lua_settop(L, 2);
    return 1;
}

static int lib_set(lua_State *L)
{
    struct state *st = state_of(L);
    const char *key = check_key(L);
    lua_settop(L, 2);
    write_down(st, L, key, false);
    put_value(st, L, key);
    return 0;
}

static int lib_clear(lua_State *L)
{
    lua_settop(L, 1);
    lua_pushnil(L);
    return lib_set(L);
}

static int lib_class(lua_State *L)
{
    struct state *st = state_of(L);
    const char *key = check_key(L);
    lua_settop(L, 1);
    push_value(st, L, 1);
    if (!lua_isnil(L, 2) && !lua_istable(L, 2)) {
        return luaL_error(L, "state.class: '%s' holds a %s", key, luaL_typename(L, 2));
    }
    const struct version *v = loader_of(st, L);
    bool first = v != NULL; // its first change of the key in this transaction
    vec_foreach (e, &st->log) {
        first = first && !(e->by == v && strcmp(e->key, key) == 0);
    }
    write_down(st, L, key, true);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
        lua_pushvalue(L, 2);
        put_value(st, L, key);
    }
    if (first) {
        remove_functions(L, 2, v);
    }
    lua_pushliteral(L, "__index");
    lua_pushvalue(L, 2);
    lua_rawset(L, 2);
    return 1;
}

static int lib_keys(lua_State *L)
{
    struct state *st = state_of(L);
    lua_settop(L, 0);
    refs_push(L, st->values);
    lua_newtable(L);
    lua_pushnil(L);
    for (lua_Integer n = 1; lua_next(L, 1) != 0; n++) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_rawseti(L, 2, n);
    }
    lua_getglobal(L, "table");
    lua_getfield(L, -1, "sort");
    lua_pushvalue(L, 2);
    lua_call(L, 1, 0);
    lua_settop(L, 2);
    return 1;
}

const luaL_Reg state_functions[] = {
    {"get", lib_get},     {"set", lib_set},   {"clear", lib_clear},
    {"class", lib_class}, {"keys", lib_keys}, {NULL, NULL},
};

// ---- public ---------------------------------------------------------------------------------

struct state *state_new(struct vm *vm)
{
    struct state *st = xcalloc(1, sizeof *st);
    lua_State *L = vm_main(vm);
    st->vm = vm;
    st->own = vm_owner_open(vm, "hub.state");
    lua_pushlightuserdata(L, st);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
    lua_newtable(L);
    st->values = refs_take(L, st->own);
    return st;
}

void state_free(struct state *st)
{
    vm_owner_close(st->own);
    vec_fini(&st->log);
    free(st);
}

size_t state_count(const struct state *st)
{
    lua_State *L = vm_main(st->vm);
    size_t n = 0;
    refs_push(L, st->values);
    lua_pushnil(L);
    for (; lua_next(L, -2) != 0; n++) {
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return n;
}

bool table__has(lua_State *L, int idx)
{
    bool found = false;
    lua_pushnil(L);
    while (!found && lua_next(L, -2) != 0) {
        found = lua_rawequal(L, idx, -1);
        lua_pop(L, 1);
    }
    lua_settop(L, found ? -3 : -2);
    return found;
}

bool state_holds(const struct state *st, lua_State *L, int idx)
{
    refs_push(L, st->values);
    return table__has(L, idx);
}

void state_begin(struct state *st)
{
    assert(st->log.n == 0);
    st->logging = true;
}

static void change_fini(struct state *st, struct state__change *e)
{
    refs_drop(st->vm, e->before);
    refs_drop(st->vm, e->fields);
    free(e->key);
}

void state_undo(struct state *st)
{
    struct map taken = {0};   // keys that a version that is taken wrote
    struct entry space = {0}; // no block is refused here, also if running code has used all memory
    lua_State *L = entry_begin(&space, st->vm);
    assert(st->logging);
    for (size_t i = st->log.n; i-- > 0;) {
        struct state__change *e = &st->log.p[i];
        if (!e->by->thrown) {
            map_set(&taken, str_of(e->key), st);
            continue;
        }
        if (map_get(&taken, str_of(e->key)) == NULL) {
            refs_push(L, e->before); // nil when there was nothing
            if (e->fields != 0 && lua_istable(L, -1)) {
                value_clear_fields(L, -1);
                refs_push(L, e->fields);
                value_copy_fields(L, -1, -2);
                lua_pop(L, 1);
            }
            put_value(st, L, e->key);
        }
        change_fini(st, e);
        vec_remove(&st->log, i);
    }
    entry_end(&space);
    map_fini(&taken);
}

void state_end(struct state *st)
{
    state_undo(st);
    st->logging = false;
    vec_foreach (e, &st->log) {
        change_fini(st, e);
    }
    st->log.n = 0;
}

void state_begin_alone(struct state *st)
{
    state_begin(st);
    st->alone = true;
}

void state_end_alone(struct state *st, bool keep)
{
    if (st->alone) {
        st->alone = false;
        one_version.thrown = !keep;
        state_end(st);
    }
}
