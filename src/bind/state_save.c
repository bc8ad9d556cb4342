// hub.state as a JSON value, and back, so that it outlives its Lua state.
//
// The values are a graph: two keys may share a table, tables may contain each other, a table may be an instance of a class
// that has a key of its own. So the tables are written one by one, and refer to each other by number:
//
//     {"tables": [{"pairs": ["jobs", {"table": 1}, "n", 3]},        the first is hub.state itself
//                 {"pairs": [1, "a", 2, {"table": 1}], "array": true},
//                 {"pairs": ["name", "x"], "meta": 3},               an instance, its class is 3
//                 {"pairs": ["__index", {"table": 3}]}]}
//
// Values that JSON does not have are objects with one member: {"table": 1}, {"hex": "ff00"} for bytes that are not UTF-8,
// {"float": "inf"}. Functions, coroutines and userdata cannot be carried over, nor tables whose metatable is not a value of
// hub.state. They are left out and named. The functions of a class are left out silently: the file that asks for the class
// defines them.
//
// Nothing recurses: tables wait in a list, and each is read once. All of it runs outside of any entry, on raw tables, where
// memory is not refused and nothing raises.

#include <math.h>

#include <lauxlib.h>

#include "base/utf8.h"
#include "bind/state_int.h"
#include "lua/value.h"

enum { NAMES_MAX = 8, PATH_SHOWN = 60 };

static const char *const form_table = "table", *const form_hex = "hex", *const form_float = "float";

// ---- saving ---------------------------------------------------------------------------------

/// One key of hub.state.
struct root {
    struct json key, value;
    size_t cost; // bytes of what it was the first to reach
    const char *path;
};

struct saver {
    lua_State *L;
    struct arena *a;
    struct buf *lost;
    size_t n_lost;
    int values, held, seen, list; // tables on the stack: see push_tables()
    size_t done;                  // of `tables`
    vec(struct json) tables;      // by number
    vec(const char *) paths;      // of each table, for messages: "jobs.done"
    vec(struct root) roots;
};

/// `values` is hub.state itself; `held` has its table values as keys; `seen` leads from a table to its
/// number, `list` from the number to the table.
static void push_tables(struct saver *s, vm_ref values)
{
    lua_State *L = s->L;
    refs_push(L, values);
    s->values = lua_gettop(L);
    s->held = s->values + 1;
    s->seen = s->values + 2;
    s->list = s->values + 3;
    lua_newtable(L);
    lua_newtable(L);
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, s->values); lua_pop(L, 1)) {
        if (lua_istable(L, -1)) {
            lua_pushvalue(L, -1);
            lua_pushboolean(L, 1);
            lua_rawset(L, s->held);
        }
    }
}

static bool is_held(struct saver *s, int idx)
{
    lua_pushvalue(s->L, idx);
    bool held = lua_rawget(s->L, s->held) != LUA_TNIL;
    lua_pop(s->L, 1);
    return held;
}

/// A table that state.class() made.
static bool is_class(struct saver *s, int idx)
{
    lua_pushliteral(s->L, "__index");
    lua_rawget(s->L, idx);
    bool own = lua_rawequal(s->L, -1, idx);
    lua_pop(s->L, 1);
    return own && is_held(s, idx);
}

static void lose(struct saver *s, const char *path, const char *what)
{
    if (s->n_lost++ < NAMES_MAX) {
        buf_addf(s->lost, "%s%s (%s)", s->n_lost > 1 ? ", " : "", path, what);
    }
}

static struct json form(struct saver *s, const char *name, struct json value)
{
    struct json_member *m = arena_alloc(s->a, sizeof *m);
    *m = (struct json_member){.key = str_of(name), .value = value};
    return (struct json){.type = JSON_OBJ, .n = 1, .members = m};
}

/// Where a value was found: the path of its table, and the stack index of its key. The text is made only for values that are
/// named in a message.
struct way {
    const char *from;
    int key;
};

static const char *path_of(struct saver *s, struct way way)
{
    if (strlen(way.from) > PATH_SHOWN) {
        return way.from; // long enough for a message
    }
    const char *dot = way.from[0] != '\0' ? "." : "";
    if (lua_type(s->L, way.key) == LUA_TSTRING) {
        return arena_printf(s->a, "%s%s%.*s", way.from, dot, PATH_SHOWN,
                            lua_tostring(s->L, way.key));
    }
    if (lua_isinteger(s->L, way.key)) {
        return arena_printf(s->a, "%s[%lld]", way.from, (long long)lua_tointeger(s->L, way.key));
    }
    return arena_printf(s->a, "%s[%s]", way.from, luaL_typename(s->L, way.key));
}

/// The number of the table at `idx`, which is taken into the list when it is new.
static int64_t number_of(struct saver *s, int idx, struct way way)
{
    lua_State *L = s->L;
    lua_pushvalue(L, idx);
    if (lua_rawget(L, s->seen) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_pushvalue(L, idx);
        lua_pushinteger(L, (lua_Integer)s->tables.n);
        lua_rawset(L, s->seen);
        lua_pushvalue(L, idx);
        lua_rawseti(L, s->list, (lua_Integer)s->tables.n);
        lua_pushinteger(L, (lua_Integer)s->tables.n);
        vec_push(&s->tables, ((struct json){.type = JSON_NULL}));
        vec_push(&s->paths, path_of(s, way));
    }
    int64_t n = lua_tointeger(L, -1);
    lua_pop(L, 1);
    return n;
}

/// Can the table at `idx` be carried over, with its metatable?
static bool is_plain(struct saver *s, int idx)
{
    if (!lua_getmetatable(s->L, idx)) {
        return true;
    }
    bool known = is_held(s, lua_gettop(s->L));
    lua_pop(s->L, 1);
    return known || value_is_array(s->L, idx) || is_class(s, idx);
}

/// Read the value at `idx` (absolute) as JSON. False: it cannot be carried over, and is named in `lost`, except for functions
/// if `quiet`.
static bool read_value(struct saver *s, int idx, struct json *out, struct way way, bool quiet)
{
    int type = lua_type(s->L, idx);
    *out = (struct json){.type = JSON_NULL};
    struct str t = STR_NULL;
    if (type == LUA_TSTRING) {
        t.p = lua_tolstring(s->L, idx, &t.n);
    }
    double d = type == LUA_TNUMBER ? lua_tonumber(s->L, idx) : 0;
    if (t.p != NULL && utf8_valid(t)) {
        *out = (struct json){.type = JSON_STR, .s = arena_str(s->a, t)};
    } else if (t.p != NULL) {
        char *hex = arena_alloc(s->a, 2 * t.n + 1);
        for (size_t i = 0; i < t.n; i++) {
            snprintf(hex + 2 * i, 3, "%02x", (unsigned char)t.p[i]);
        }
        *out = form(s, form_hex, (struct json){.type = JSON_STR, .s = {hex, 2 * t.n}});
    } else if (lua_isinteger(s->L, idx)) {
        *out = (struct json){.type = JSON_INT, .i = lua_tointeger(s->L, idx)};
    } else if (type == LUA_TNUMBER && isfinite(d)) {
        *out = (struct json){.type = JSON_DOUBLE, .d = d};
    } else if (type == LUA_TNUMBER) {
        struct str name = isnan(d) ? STR("nan") : d > 0 ? STR("inf") : STR("-inf");
        *out = form(s, form_float, (struct json){.type = JSON_STR, .s = name});
    } else if (type == LUA_TBOOLEAN) {
        *out = (struct json){.type = JSON_BOOL, .b = lua_toboolean(s->L, idx)};
    } else if (type == LUA_TTABLE && is_plain(s, idx)) {
        struct json n = {.type = JSON_INT, .i = number_of(s, idx, way)};
        *out = form(s, form_table, n);
    } else if (!value_is_null(s->L, idx)) {
        if (!quiet || type != LUA_TFUNCTION) {
            lose(s, path_of(s, way),
                 type == LUA_TTABLE ? "a table with a metatable" : lua_typename(s->L, type));
        }
        return false;
    }
    return true;
}

/// Read the table at `idx` as "pairs".
static struct json read_pairs(struct saver *s, int idx, const char *path)
{
    lua_State *L = s->L;
    bool class = is_class(s, idx);
    uint32_t n = 0;
    for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1)) {
        n += 2;
    }
    struct json *items = arena_calloc(s->a, n, sizeof *items);
    n = 0;
    for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1)) {
        int value = lua_gettop(L);
        struct way way = {path, value - 1};
        if (read_value(s, value - 1, &items[n], way, false) &&
            read_value(s, value, &items[n + 1], way, class)) {
            n += 2;
        }
    }
    return (struct json){.type = JSON_ARR, .n = n, .items = items};
}

/// Read the table with the number `i`.
static void read_table(struct saver *s, size_t i)
{
    lua_State *L = s->L;
    struct json_member *m = arena_calloc(s->a, 2, sizeof *m);
    struct json out = {.type = JSON_OBJ, .n = 1, .members = m};
    lua_rawgeti(L, s->list, (lua_Integer)i);
    int idx = lua_gettop(L);
    m[0] = (struct json_member){STR("pairs"), read_pairs(s, idx, s->paths.p[i])};
    if (value_is_array(L, idx)) {
        m[out.n++] = (struct json_member){STR("array"), {.type = JSON_BOOL, .b = true}};
    } else if (lua_getmetatable(L, idx)) {
        if (is_held(s, idx + 1)) {
            struct json meta = {.type = JSON_INT,
                                .i = number_of(s, idx + 1, (struct way){s->paths.p[i], idx})};
            m[out.n++] = (struct json_member){STR("meta"), meta};
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    s->tables.p[i] = out;
}

/// Each key with all that it is the first to reach.
static void read_roots(struct saver *s)
{
    lua_State *L = s->L;
    lua_pushliteral(L, "");
    (void)number_of(s, s->values, (struct way){"", lua_gettop(L)});
    lua_pop(L, 1);
    s->done = 1;
    for (lua_pushnil(L); lua_next(L, s->values); lua_pop(L, 1)) {
        int value = lua_gettop(L);
        size_t before = s->a->used;
        struct way way = {"", value - 1};
        struct root r = {.path = path_of(s, way)};
        if (read_value(s, value - 1, &r.key, way, false) &&
            read_value(s, value, &r.value, way, false)) {
            while (s->done < s->tables.n) {
                read_table(s, s->done++);
            }
            r.cost = s->a->used - before;
            vec_push(&s->roots, r);
        }
    }
}

static int by_cost(const void *a, const void *b)
{
    const struct root *x = a, *y = b;
    return (x->cost > y->cost) - (x->cost < y->cost);
}

/// Table 0: the keys, the small ones first, until `max` bytes are reached.
static void write_roots(struct saver *s, size_t max)
{
    struct json_member *m = arena_calloc(s->a, 1, sizeof *m);
    struct json *items = arena_calloc(s->a, 2 * s->roots.n, sizeof *items);
    size_t sum = 0;
    uint32_t n = 0;
    if (s->roots.n != 0) {
        qsort(s->roots.p, s->roots.n, sizeof *s->roots.p, by_cost);
    }
    vec_foreach (r, &s->roots) {
        sum += r->cost;
        if (sum > max) {
            lose(s, r->path, "too large");
            continue;
        }
        items[n++] = r->key;
        items[n++] = r->value;
    }
    *m = (struct json_member){STR("pairs"), {.type = JSON_ARR, .n = n, .items = items}};
    s->tables.p[0] = (struct json){.type = JSON_OBJ, .n = 1, .members = m};
}

// ---- restoring ------------------------------------------------------------------------------

struct restorer {
    lua_State *L;
    int list;      // on the stack: the tables, from 1
    lua_Integer n; // how many
};

static void push_table(struct restorer *r, const struct json *number)
{
    int64_t i = json_int(number, -1);
    if (i >= 0 && i < r->n) {
        lua_rawgeti(r->L, r->list, i + 1);
    } else {
        lua_pushnil(r->L);
    }
}

static void push_value(struct restorer *r, const struct json *v)
{
    const struct json *inner;
    if (v->type != JSON_OBJ) {
        value_push(r->L, v);
    } else if ((inner = json_get(v, form_table)) != NULL) {
        push_table(r, inner);
    } else if ((inner = json_get(v, form_hex)) != NULL) {
        struct str hex = json_str(inner, "");
        luaL_Buffer b;
        luaL_buffinit(r->L, &b);
        for (size_t i = 0; i + 1 < hex.n; i += 2) {
            char pair[3] = {hex.p[i], hex.p[i + 1], '\0'};
            luaL_addchar(&b, (char)strtoul(pair, NULL, 16));
        }
        luaL_pushresult(&b);
    } else {
        struct str name = json_str(json_get(v, form_float), "nan");
        lua_pushnumber(r->L, str_eqz(name, "inf")    ? (lua_Number)INFINITY
                             : str_eqz(name, "-inf") ? -(lua_Number)INFINITY
                                                     : (lua_Number)NAN);
    }
}

static void fill(struct restorer *r, const struct json *table, lua_Integer i)
{
    lua_State *L = r->L;
    const struct json *pairs = json_get(table, "pairs");
    lua_rawgeti(L, r->list, i);
    for (size_t k = 0; json_at(pairs, k + 1) != NULL; k += 2) {
        push_value(r, json_at(pairs, k));
        push_value(r, json_at(pairs, k + 1));
        bool nan = lua_type(L, -2) == LUA_TNUMBER && isnan(lua_tonumber(L, -2));
        if (!lua_isnil(L, -2) && !nan) { // else no table takes it as a key
            lua_rawset(L, -3);
        } else {
            lua_pop(L, 2);
        }
    }
    if (json_bool(json_get(table, "array"), false)) {
        value_mark_array(L);
    } else if (json_get(table, "meta") != NULL) {
        push_table(r, json_get(table, "meta"));
        lua_setmetatable(L, -2); // nil is allowed
    }
    lua_pop(L, 1);
}

// ---- public ---------------------------------------------------------------------------------

struct json *state_save(struct state *st, struct arena *a, size_t max, struct buf *lost)
{
    struct saver s = {.L = vm_main(st->vm), .a = a, .lost = lost};
    int top = lua_gettop(s.L);
    push_tables(&s, st->values);
    read_roots(&s);
    write_roots(&s, max);
    if (s.n_lost > NAMES_MAX) {
        buf_addf(lost, " and %zu more", s.n_lost - NAMES_MAX);
    }
    struct json *out = arena_calloc(a, 1, sizeof *out);
    struct json *items = arena_alloc(a, s.tables.n * sizeof *items);
    memcpy(items, s.tables.p, s.tables.n * sizeof *items);
    *out = form(&s, "tables",
                (struct json){.type = JSON_ARR, .n = (uint32_t)s.tables.n, .items = items});
    lua_settop(s.L, top);
    vec_fini(&s.tables);
    vec_fini(&s.paths);
    vec_fini(&s.roots);
    return out;
}

void state_restore(struct state *st, const struct json *saved)
{
    const struct json *tables = json_get(saved, "tables");
    struct restorer r = {.L = vm_main(st->vm)};
    lua_newtable(r.L);
    r.list = lua_gettop(r.L);
    json_foreach_item (t, tables) {
        if (r.n == 0) {
            refs_push(r.L, st->values);
        } else {
            lua_newtable(r.L);
        }
        lua_rawseti(r.L, r.list, ++r.n);
        (void)t;
    }
    lua_Integer i = 0;
    json_foreach_item (t, tables) {
        fill(&r, t, ++i);
    }
    lua_pop(r.L, 1);
    lua_gc(r.L, LUA_GCCOLLECT); // what nothing leads to
}
