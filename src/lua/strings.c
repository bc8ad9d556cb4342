// string.rep and string.format, bounded.
//
// rep copies by doubling and refuses what no string of this state could hold. format does its own
// quoting (%q costs Lua a printf for each control character) and its own texts of values (%s and %p
// show no addresses), puts the results in the place of the arguments, and leaves the rest to
// Lua's format.

#include "lua/strings.h"

#include <ctype.h>

#include <lualib.h>

#include "lua/vm_int.h"

int strings_rep(lua_State *L)
{
    size_t n, n_sep;
    const char *s = luaL_checklstring(L, 1, &n);
    lua_Integer times = luaL_checkinteger(L, 2);
    const char *sep = luaL_optlstring(L, 3, "", &n_sep);
    size_t unit = n + n_sep;
    if (times <= 0 || unit == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((size_t)times > vm_of(L)->block_max / unit) {
        return luaL_error(L, "resulting string too large");
    }
    size_t total = unit * (size_t)times - n_sep, done = MIN(unit, total);
    limit__charge(L, total);
    luaL_Buffer b;
    char *out = luaL_buffinitsize(L, &b, total);
    memcpy(out, s, n);
    memcpy(out + n, sep, done - n);
    while (done < total) {
        size_t more = MIN(done, total - done);
        memcpy(out + done, out, more);
        done += more;
    }
    luaL_pushresultsize(&b, total);
    return 1;
}

// ---- format ---------------------------------------------------------------------------------

/// Push `s` as Lua source text.
static void push_quoted(lua_State *L, struct str s)
{
    struct vm *vm = vm_of(L);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    luaL_addchar(&b, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '"' || c == '\\' || c == '\n') {
            luaL_addchar(&b, '\\');
            luaL_addchar(&b, (char)c);
        } else if (iscntrl(c)) {
            bool digit = i + 1 < s.n && isdigit((unsigned char)s.p[i + 1]);
            char code[8];
            int n = snprintf(code, sizeof code, digit ? "\\%03d" : "\\%d", c);
            luaL_addlstring(&b, code, (size_t)n);
            limit__tick(L, vm, 32);
        } else {
            luaL_addchar(&b, (char)c);
            limit__tick(L, vm, 1);
        }
    }
    luaL_addchar(&b, '"');
    luaL_pushresult(&b);
}

/// Make argument `arg` a string where its text is our part. Returns true when the conversion
/// has to become 's' because of that.
static bool convert(lua_State *L, int arg, char conv, bool modified)
{
    int type = lua_type(L, arg);
    if (conv == 'q' && type == LUA_TSTRING && !modified) {
        size_t n;
        const char *p = lua_tolstring(L, arg, &n);
        push_quoted(L, (struct str){p, n});
    } else if (conv == 's' && type != LUA_TSTRING && type != LUA_TNUMBER) {
        libs__push_text(L, arg);
    } else if (conv == 'p' && lua_topointer(L, arg) != NULL) {
        libs__push_id(L, arg);
    } else {
        return false;
    }
    lua_replace(L, arg);
    return conv != 's';
}

/// Walk over the conversions of `format`. Without `out` their arguments are converted, and the
/// result tells whether the format must change; with `out`, a copy of the format, it is changed.
static bool walk(lua_State *L, struct str format, int top, char *out)
{
    const char *end = format.p + format.n;
    int arg = 1;
    bool changes = false;
    for (const char *p = format.p; p < end; p++) {
        if (*p != '%') {
            continue;
        }
        const char *conv = ++p; // after the flags, width and precision
        while (conv < end && *conv != '\0' && strchr("-+ #0123456789.", *conv) != NULL) {
            conv++;
        }
        if (conv < end && *conv != '%' && ++arg <= top) {
            if (out == NULL) {
                changes |= convert(L, arg, *conv, conv > p);
            } else if (((*conv == 'q' && conv == p) || *conv == 'p') &&
                       lua_type(L, arg) == LUA_TSTRING) {
                out[conv - format.p] = 's';
            }
        }
        p = conv;
    }
    return changes;
}

int strings_format(lua_State *L)
{
    struct str format;
    format.p = luaL_checklstring(L, 1, &format.n);
    size_t bytes = format.n;
    for (int i = lua_gettop(L); i > 1; i--) {
        bytes += lua_type(L, i) == LUA_TSTRING ? lua_rawlen(L, i) : 16;
    }
    limit__charge(L, bytes * 4);
    if (walk(L, format, lua_gettop(L), NULL)) { // the format at 1 becomes one for what they are now
        int top = lua_gettop(L);
        luaL_Buffer b;
        char *out = luaL_buffinitsize(L, &b, format.n);
        memcpy(out, format.p, format.n);
        walk(L, format, top, out);
        luaL_pushresultsize(&b, format.n);
        lua_replace(L, 1);
    }
    return vm_of(L)->own_format(L);
}
