#include "unit/lua/stock.h"

#include <lauxlib.h>
#include <lualib.h>

#include "unit/lua/run.h"

struct stock {
    lua_State *theirs;
    struct vm *ours;
};

struct stock *stock_open(void)
{
    struct stock *s = calloc(1, sizeof *s);
    s->theirs = luaL_newstate();
    luaL_openlibs(s->theirs);
    s->ours = run_vm(VM_USER);
    return s;
}

void stock_close(struct stock *s)
{
    lua_close(s->theirs);
    vm_close(s->ours);
    free(s);
}

// All results in one text, with their types; "error" when it fails.
static const char wrapper[] =
    "local r = table.pack(pcall(function() return %s end))\n"
    "if not r[1] then return 'error' end\n"
    "for i = 2, r.n do r[i] = (math.type(r[i]) or type(r[i])) .. ':' .. tostring(r[i]) .. ';' end\n"
    "return r.n .. table.concat(r, '', 2, r.n)";

static void run_theirs(lua_State *L, const char *source, char *out, size_t n)
{
    if (luaL_dostring(L, source) != LUA_OK) {
        snprintf(out, n, "failed: %s", lua_tostring(L, -1));
    } else {
        snprintf(out, n, "%s", lua_tostring(L, -1));
    }
    lua_settop(L, 0);
}

void stock_compare(struct stock *s, const char *source)
{
    static char text[8192], theirs[1024];
    snprintf(text, sizeof text, wrapper, source);
    run_theirs(s->theirs, text, theirs, sizeof theirs);
    struct run ours = run_lua(s->ours, text);
    if (strcmp(theirs, ours.text) != 0) {
        test_fail(__FILE__, __LINE__, "%s\n  ours   %s\n  theirs %s", source, ours.text, theirs);
    }
}
