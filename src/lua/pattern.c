// string.find, match, gmatch and gsub on the bounded matcher (match.c).
//
// Same arguments, results and messages as in Lua's own library. Searching for plain text is linear
// in both strings.

#include "lua/pattern.h"

#include "lua/match.h"
#include "lua/vm_int.h"

static struct str check_str(lua_State *L, int idx)
{
    struct str s;
    s.p = luaL_checklstring(L, idx, &s.n);
    return s;
}

/// Where to begin, from 0, of a start as Lua counts it: from 1, or from the end.
static size_t start_of(lua_State *L, int idx, size_t n)
{
    lua_Integer at = luaL_optinteger(L, idx, 1);
    if (at > 0) {
        return (size_t)at - 1;
    }
    if (at == 0 || at < -(lua_Integer)n) {
        return 0;
    }
    return n - (size_t)-at;
}

static int find(lua_State *L, bool places)
{
    struct str s = check_str(L, 1), pattern = check_str(L, 2);
    size_t from = start_of(L, 3, s.n);
    bool plain = places;
    for (size_t i = 0; i < pattern.n && plain && !lua_toboolean(L, 4); i++) {
        plain = pattern.p[i] == '\0' || strchr("^$*+?.([%-", pattern.p[i]) == NULL;
    }
    if (from > s.n) {
        lua_pushnil(L);
        return 1;
    }
    if (plain) {
        limit__charge(L, s.n - from + pattern.n);
        const char *hit =
            pattern.n == 0 ? s.p + from : memmem(s.p + from, s.n - from, pattern.p, pattern.n);
        if (hit == NULL) {
            lua_pushnil(L);
            return 1;
        }
        lua_pushinteger(L, hit - s.p + 1);
        lua_pushinteger(L, hit - s.p + (ptrdiff_t)pattern.n);
        return 2;
    }
    bool anchored = str_starts(pattern, "^");
    struct match m;
    match_init(&m, L, s, pattern);
    const char *at = s.p + from;
    do {
        const char *e = match_at(&m, at, pattern.p + anchored);
        if (e != NULL && places) {
            lua_pushinteger(L, at - s.p + 1);
            lua_pushinteger(L, e - s.p);
            return match_push_all(&m, NULL, NULL) + 2;
        }
        if (e != NULL) {
            return match_push_all(&m, at, e);
        }
    } while (at++ < m.s_end && !anchored);
    lua_pushnil(L);
    return 1;
}

int pattern_find(lua_State *L)
{
    return find(L, true);
}

int pattern_match(lua_State *L)
{
    return find(L, false);
}

// ---- gmatch ---------------------------------------------------------------------------------

enum { UP_SUBJECT = 1, UP_PATTERN, UP_FROM, UP_LAST }; // upvalues; last: end of the match before

static int next_match(lua_State *L)
{
    struct str s, pattern;
    s.p = lua_tolstring(L, lua_upvalueindex(UP_SUBJECT), &s.n);
    pattern.p = lua_tolstring(L, lua_upvalueindex(UP_PATTERN), &pattern.n);
    lua_Integer from = lua_tointeger(L, lua_upvalueindex(UP_FROM));
    lua_Integer last = lua_tointeger(L, lua_upvalueindex(UP_LAST));
    struct match m;
    match_init(&m, L, s, pattern);
    for (size_t i = (size_t)from; i <= s.n; i++) {
        const char *e = match_at(&m, s.p + i, pattern.p);
        if (e != NULL && e - s.p != last) {
            lua_pushinteger(L, e - s.p);
            lua_copy(L, -1, lua_upvalueindex(UP_FROM));
            lua_replace(L, lua_upvalueindex(UP_LAST));
            return match_push_all(&m, s.p + i, e);
        }
    }
    return 0;
}

int pattern_gmatch(lua_State *L)
{
    struct str s = check_str(L, 1);
    check_str(L, 2);
    size_t from = start_of(L, 3, s.n);
    lua_settop(L, 2);
    lua_pushinteger(L, (lua_Integer)MIN(from, s.n + 1));
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, next_match, 4);
    return 1;
}

// ---- gsub -----------------------------------------------------------------------------------

/// Add the replacement string with its %0 to %9 filled in.
static void add_template(struct match *m, luaL_Buffer *b, struct str t, const char *s,
                         const char *e)
{
    const char *end = t.p + t.n;
    for (const char *p = t.p; p < end; p++) {
        if (*p != '%') {
            luaL_addchar(b, *p);
            continue;
        }
        p++;
        char c = '\0';
        if (p < end) {
            c = *p;
        }
        if (c == '%') {
            luaL_addchar(b, '%');
        } else if (c == '0') {
            luaL_addlstring(b, s, (size_t)(e - s));
        } else if (c >= '1' && c <= '9') {
            match_push(m, c - '1', s, e);
            luaL_tolstring(m->L, -1, NULL); // a position is a number
            lua_remove(m->L, -2);
            luaL_addvalue(b);
        } else {
            luaL_error(m->L, "invalid use of '%%' in replacement string");
        }
    }
}

/// Add what replaces [s, e); false when it stays.
static bool add_replacement(struct match *m, luaL_Buffer *b, const char *s, const char *e)
{
    lua_State *L = m->L;
    int type = lua_type(L, 3);
    if (type == LUA_TFUNCTION) {
        lua_pushvalue(L, 3);
        lua_call(L, match_push_all(m, s, e), 1);
    } else if (type == LUA_TTABLE) {
        match_push(m, 0, s, e);
        lua_gettable(L, 3);
    } else {
        struct str t = check_str(L, 3);
        limit__tick(L, m->vm, t.n);
        add_template(m, b, t, s, e);
        return true;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(b, s, (size_t)(e - s));
        return false;
    }
    if (!lua_isstring(L, -1)) {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
    luaL_addvalue(b);
    return true;
}

int pattern_gsub(lua_State *L)
{
    struct str s = check_str(L, 1), pattern = check_str(L, 2);
    int type = lua_type(L, 3);
    luaL_argexpected(L,
                     type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                         type == LUA_TTABLE,
                     3, "string/function/table");
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)s.n + 1), n = 0;
    bool anchored = str_starts(pattern, "^"), changed = false;
    const char *at = s.p, *last = NULL;
    struct match m;
    luaL_Buffer b;
    match_init(&m, L, s, pattern);
    luaL_buffinit(L, &b);
    while (n < most) {
        const char *e = match_at(&m, at, pattern.p + anchored);
        if (e != NULL && e != last) {
            n++;
            changed |= add_replacement(&m, &b, at, e);
            at = last = e;
        } else if (at < m.s_end) {
            luaL_addchar(&b, *at);
            at++;
        } else {
            break;
        }
        if (anchored) {
            break;
        }
    }
    luaL_addlstring(&b, at, (size_t)(m.s_end - at));
    luaL_pushresult(&b);
    if (!changed) {
        lua_pushvalue(L, 1);
    }
    lua_pushinteger(L, n);
    return 2;
}
