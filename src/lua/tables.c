// table.*, bounded.
//
// Lua's own functions believe what __len says and loop that often in C. These do the same work
// (metamethods included) and count their steps. sort is a heap sort: it needs n log n comparisons
// whatever order the comparator pretends, and never looks outside the array, so a comparator that
// lies gives some order and nothing worse.

#include "lua/tables.h"

#include "lua/vm_int.h"

/// A table, or something that acts as one where `ops` need it ("r" read, "w" write, "n" length).
static void check_table(lua_State *L, int idx, const char *ops)
{
    static const struct {
        char op;
        const char *name;
    } needs[] = {{'r', "__index"}, {'w', "__newindex"}, {'n', "__len"}};
    if (lua_type(L, idx) == LUA_TTABLE) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
        if (strchr(ops, needs[i].op) == NULL) {
            continue;
        }
        if (luaL_getmetafield(L, idx, needs[i].name) == LUA_TNIL) {
            luaL_checktype(L, idx, LUA_TTABLE);
        }
        lua_pop(L, 1);
    }
}

/// t[to] = t[from], one step.
static void copy_slot(lua_State *L, int from_t, lua_Integer from, int to_t, lua_Integer to)
{
    limit__tick(L, vm_of(L), 4);
    lua_geti(L, from_t, from);
    lua_seti(L, to_t, to);
}

int tables_insert(lua_State *L)
{
    check_table(L, 1, "rwn");
    lua_Integer end = (lua_Integer)((lua_Unsigned)luaL_len(L, 1) + 1), at = end;
    int n = lua_gettop(L);
    if (n != 2 && n != 3) {
        return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    if (n == 3) {
        at = luaL_checkinteger(L, 2);
        luaL_argcheck(L, (lua_Unsigned)at - 1u < (lua_Unsigned)end, 2, "position out of bounds");
        for (lua_Integer i = end; i > at; i--) {
            copy_slot(L, 1, i - 1, 1, i);
        }
    }
    lua_seti(L, 1, at);
    return 0;
}

int tables_remove(lua_State *L)
{
    check_table(L, 1, "rwn");
    lua_Integer n = luaL_len(L, 1), at = luaL_optinteger(L, 2, n);
    if (at != n) {
        luaL_argcheck(L, (lua_Unsigned)at - 1u <= (lua_Unsigned)n, 2, "position out of bounds");
    }
    lua_geti(L, 1, at);
    for (; at < n; at++) {
        copy_slot(L, 1, at + 1, 1, at);
    }
    lua_pushnil(L);
    lua_seti(L, 1, at);
    return 1;
}

int tables_move(lua_State *L)
{
    lua_Integer from = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3);
    lua_Integer to = luaL_checkinteger(L, 4);
    int dest = lua_isnoneornil(L, 5) ? 1 : 5;
    check_table(L, 1, "r");
    check_table(L, dest, "w");
    if (last >= from) {
        luaL_argcheck(L, from > 0 || last < LUA_MAXINTEGER + from, 3, "too many elements to move");
        lua_Integer n = last - from + 1;
        luaL_argcheck(L, to <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
        bool apart = to > last || to <= from || (dest != 1 && !lua_compare(L, 1, dest, LUA_OPEQ));
        for (lua_Integer i = 0; i < n; i++) {
            lua_Integer k = apart ? i : n - 1 - i; // backwards where they overlap
            copy_slot(L, 1, from + k, dest, to + k);
        }
    }
    lua_pushvalue(L, dest);
    return 1;
}

static void add_slot(lua_State *L, luaL_Buffer *b, lua_Integer i)
{
    lua_geti(L, 1, i);
    if (!lua_isstring(L, -1)) {
        luaL_error(L, "invalid value (at index %I) in table for 'concat'", i);
    }
    limit__tick(L, vm_of(L), 8 + lua_rawlen(L, -1) / 8);
    luaL_addvalue(b);
}

int tables_concat(lua_State *L)
{
    check_table(L, 1, "rn");
    lua_Integer n = luaL_len(L, 1);
    size_t n_sep;
    const char *sep = luaL_optlstring(L, 2, "", &n_sep);
    lua_Integer i = luaL_optinteger(L, 3, 1), last = luaL_optinteger(L, 4, n);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (; i < last; i++) {
        add_slot(L, &b, i);
        limit__tick(L, vm_of(L), n_sep / 8);
        luaL_addlstring(&b, sep, n_sep);
    }
    if (i == last) {
        add_slot(L, &b, i);
    }
    luaL_pushresult(&b);
    return 1;
}

int tables_unpack(lua_State *L)
{
    lua_Integer from = luaL_optinteger(L, 2, 1);
    lua_Integer last = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
    if (from > last) {
        return 0;
    }
    lua_Unsigned n = (lua_Unsigned)last - (lua_Unsigned)from;
    if (n >= INT32_MAX || !lua_checkstack(L, (int)n + 1)) {
        return luaL_error(L, "too many results to unpack");
    }
    for (lua_Unsigned i = 0; i <= n; i++) {
        limit__tick(L, vm_of(L), 4);
        lua_geti(L, 1, (lua_Integer)((lua_Unsigned)from + i));
    }
    return (int)n + 1;
}

// ---- sort -----------------------------------------------------------------------------------

/// Is the value at `a` less than the one at `b`? Both are absolute indexes.
static bool less(lua_State *L, int a, int b)
{
    struct vm *vm = vm_of(L);
    bool strings = lua_type(L, a) == LUA_TSTRING;
    limit__tick(L, vm, 8 + (strings ? lua_rawlen(L, a) / 8 : 0));
    if (lua_isnil(L, 2)) {
        return lua_compare(L, a, b, LUA_OPLT) != 0;
    }
    lua_pushvalue(L, 2);
    lua_pushvalue(L, a);
    lua_pushvalue(L, b);
    lua_call(L, 2, 1);
    bool yes = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return yes;
}

/// Is t[a] less than t[b]?
static bool less_slots(lua_State *L, lua_Integer a, lua_Integer b)
{
    int top = lua_gettop(L);
    lua_geti(L, 1, a);
    lua_geti(L, 1, b);
    bool yes = less(L, top + 1, top + 2);
    lua_settop(L, top);
    return yes;
}

/// The value on top belongs at `root` of the heap t[1..n], whose subtrees are heaps; it is taken
/// off. Goes down along the larger children first and then up: most values come from the bottom
/// and belong there.
static void sift(lua_State *L, lua_Integer root, lua_Integer n)
{
    int value = lua_gettop(L);
    lua_Integer at = root;
    while (at * 2 <= n) {
        lua_Integer child = at * 2;
        child += child < n && less_slots(L, child, child + 1);
        copy_slot(L, 1, child, 1, at);
        at = child;
    }
    while (at > root) {
        lua_geti(L, 1, at / 2);
        bool found = !less(L, value + 1, value);
        if (found) {
            lua_pop(L, 1);
            break;
        }
        lua_seti(L, 1, at);
        at /= 2;
    }
    lua_seti(L, 1, at);
}

int tables_sort(lua_State *L)
{
    check_table(L, 1, "rwn");
    lua_Integer n = luaL_len(L, 1);
    luaL_argcheck(L, n < INT32_MAX, 1, "array too big");
    if (!lua_isnoneornil(L, 2)) {
        luaL_checktype(L, 2, LUA_TFUNCTION);
    }
    lua_settop(L, 2);
    for (lua_Integer i = n / 2; i >= 1; i--) {
        lua_geti(L, 1, i);
        sift(L, i, n);
    }
    for (lua_Integer i = n; i > 1; i--) {
        lua_geti(L, 1, i);
        copy_slot(L, 1, 1, 1, i); // the largest goes after the heap
        sift(L, 1, i - 1);
    }
    return 0;
}
