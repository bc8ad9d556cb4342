// Fuzz the border between C and Lua.
//
// Of every input: as JSON, what is parsed comes back equal from Lua, unless it is beyond a
// bound; as "pattern, newline, subject", our find, match, gmatch and gsub give what Lua's own
// give, or both fail. A pair that takes us too long is not tried on Lua's own, which might take for
// ever.

#include <lauxlib.h>
#include <lualib.h>

#include "lua/entry.h"
#include "lua/refs.h"
#include "lua/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char program[] =
    "local function all(...) local t = table.pack(pcall(...)) if not t[1] then return 'error' end\n"
    "  for i = 1, t.n do t[i] = tostring(t[i]) end return table.concat(t, '\\1') end\n"
    "local function each(s, p) local t = {} for a, b in string.gmatch(s, p) do\n"
    "  t[#t + 1] = tostring(a) .. '\\2' .. tostring(b) end return table.concat(t, '\\3') end\n"
    "return function(s, p) return table.concat({all(string.find, s, p), all(string.match, s, p, "
    "2),\n"
    "  all(each, s, p), all(string.gsub, s, p, '%0%1'), all(string.gsub, s, p, p, 3)}, '\\4') end";

static struct vm *vm;
static struct vm_owner *owner;
static vm_ref ours;
static lua_State *theirs;

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_luavalue: %s\n", what);
        abort();
    }
}

static void set_up(void)
{
    struct vm_opts opts = {.trust = VM_SANDBOX};
    vm = vm_open(&opts);
    owner = vm_owner_open(vm, "fuzz");
    struct entry en = {.kind = ENTRY_LOAD, .owner = owner};
    entry_begin(&en, vm);
    demand(entry_push_chunk(&en, str_of(program), "=program") == 0, "no program");
    demand(entry_run(&en, 0) == ENTRY_DONE, "no function");
    ours = refs_take(en.L, owner);
    entry_end(&en);
    theirs = luaL_newstate();
    luaL_openlibs(theirs);
    demand(luaL_dostring(theirs, program) == LUA_OK, "no stock function");
}

static void try_json(struct str text)
{
    struct arena a = {0};
    struct json *v, *back;
    struct err e;
    if (json_parse(&v, &a, text, NULL, NULL) == 0) {
        struct entry en = {0};
        lua_State *L = entry_begin(&en, vm);
        value_push(L, v);
        int rc = value_read(&back, &a, L, -1, &e);
        demand(rc == 0 || rc == ERR_TOO_LARGE, "refused");
        demand(rc < 0 || json_equal(v, back), "another value");
        entry_end(&en);
    }
    arena_fini(&a);
}

static void try_pattern(struct str pattern, struct str subject)
{
    struct entry en = {.budget_ms = 20, .owner = owner};
    lua_State *L = entry_begin(&en, vm);
    refs_push(L, ours);
    lua_pushlstring(L, subject.n > 0 ? subject.p : "", subject.n);
    lua_pushlstring(L, pattern.n > 0 ? pattern.p : "", pattern.n);
    if (entry_run(&en, 2) == ENTRY_DONE) {
        lua_pushvalue(theirs, 1);
        lua_pushlstring(theirs, subject.n > 0 ? subject.p : "", subject.n);
        lua_pushlstring(theirs, pattern.n > 0 ? pattern.p : "", pattern.n);
        demand(lua_pcall(theirs, 2, 1, 0) == LUA_OK, "stock failed");
        size_t n, m;
        const char *x = lua_tolstring(L, -1, &n), *y = lua_tolstring(theirs, -1, &m);
        demand(n == m && memcmp(x, y, n) == 0, "another answer than Lua's");
        lua_settop(theirs, 1);
    } else {
        demand(en.fault->code == FAULT_HOOK_TIMEOUT || en.fault->code == FAULT_MEMORY_LIMIT,
               "another fault");
    }
    entry_end(&en);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (vm == NULL) {
        set_up();
    }
    struct str text = {(const char *)data, size}, rest = text;
    try_json(text);
    struct str pattern = str_cut(&rest, '\n');
    try_pattern(pattern, rest);
    return 0;
}
