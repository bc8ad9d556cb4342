// Builtins that the limits need to be our own.
//
// Each keeps the meaning of the one it replaces, with these differences:
//
//   pcall, xpcall     do not catch a limit; no message handler runs after a trip; not at any depth
//   setmetatable      refuses __gc: Lua runs finalizers with hooks off, so nothing could stop one.
//                     (A to-be-closed variable does what __gc is mostly used for.) In the sandbox
//                     __mode too: weak keys can make a collection quadratic.
//   getmetatable      returns false for a userdata: code that has the metatable of a file could add a
//                     __gc to it
//   package.*         opens regular files only: opening a pipe waits for its other end
//   load, loadfile    text only, bounded: bytecode is not checked by Lua and can do anything
//   collectgarbage    counts and collects; the collector's settings are ours
//   tostring          shows no addresses
//   debug.*           cannot reach into functions and frames that are C: they rely on their values

#include "lua/guard.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "lua/args.h"
#include "lua/vm_int.h"

enum { CALLS_MAX = 4000 };

// ---- protected calls ------------------------------------------------------------------------

/// After a protected call: `skip` values at the bottom of the stack are no results.
static int finish(lua_State *L, int status, lua_KContext skip)
{
    if (status == LUA_OK || status == LUA_YIELD) {
        return lua_gettop(L) - (int)skip;
    }
    limit__caught(L, status);
    lua_pushboolean(L, 0);
    lua_pushvalue(L, -2);
    return 2;
}

/// The message handler of our xpcall; the one it was given is its upvalue. It runs where the error
/// was raised: after a trip that is inside the hook, where no hook runs.
static int on_error(lua_State *L)
{
    if (vm_of(L)->active->trip != TRIP_NONE) {
        return 1;
    }
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

/// Catching an error costs Lua a walk over all open calls, so unwinding many protected calls inside
/// each other costs their square, and no hook runs meanwhile.
static void check_depth(lua_State *L)
{
    lua_Debug ar;
    if (lua_getstack(L, CALLS_MAX, &ar)) {
        luaL_error(L, "stack overflow (no protected calls beyond %d open calls)", CALLS_MAX);
    }
}

int guard_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    check_depth(L);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    return finish(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish), 0);
}

int guard_xpcall(lua_State *L)
{
    int n = lua_gettop(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    check_depth(L);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, on_error, 1);
    lua_replace(L, 2);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2);
    return finish(L, lua_pcallk(L, n - 2, LUA_MULTRET, 2, 2, finish), 2);
}

// ---- metatables -----------------------------------------------------------------------------

static void refuse_field(lua_State *L, int meta, const char *field, const char *why)
{
    lua_pushstring(L, field);
    if (lua_rawget(L, meta) != LUA_TNIL) {
        luaL_error(L, "'%s' is not allowed in a metatable: %s", field, why);
    }
    lua_pop(L, 1);
}

/// The metatable at 2 (table or nil) may be given to a value.
static void check_meta(lua_State *L)
{
    int t = lua_type(L, 2);
    luaL_argexpected(L, t == LUA_TNIL || t == LUA_TTABLE, 2, "nil or table");
    if (t == LUA_TNIL) {
        return;
    }
    refuse_field(L, 2, "__gc", "use a to-be-closed variable");
    if (vm_of(L)->trust == VM_SANDBOX) {
        refuse_field(L, 2, "__mode", "no weak tables here");
    }
}

int guard_setmetatable(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    check_meta(L);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) {
        return luaL_error(L, "cannot change a protected metatable");
    }
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

int guard_getmetatable(lua_State *L)
{
    luaL_checkany(L, 1);
    if (!lua_getmetatable(L, 1)) {
        lua_pushnil(L);
        return 1;
    }
    if (luaL_getmetafield(L, 1, "__metatable") == LUA_TNIL && lua_isuserdata(L, 1)) {
        lua_pushboolean(L, 0);
    }
    return 1;
}

// ---- loading --------------------------------------------------------------------------------

/// Compile `text` and push it, or nil and a message. `env` is the index of its globals, 0 for the
/// state's. `text` is borrowed.
static int load_text(lua_State *L, struct str text, const char *chunk, int env)
{
    if (text.n > VM_LOAD_MAX) {
        return args_fail(L, "the chunk is larger than 256 KiB");
    }
    int status = compile__text(L, text, chunk, NULL);
    if (status != LUA_OK) {
        limit__caught(L, status);
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    if (env != 0) {
        lua_pushvalue(L, env);
        if (lua_setupvalue(L, -2, 1) == NULL) {
            lua_pop(L, 1);
        }
    }
    return 1;
}

/// Replace the function at 1 by all that it gives, one piece a call.
static void read_pieces(lua_State *L)
{
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (;;) {
        lua_pushvalue(L, 1);
        lua_call(L, 0, 1);
        size_t n = 0;
        if (lua_isnil(L, -1) || (lua_tolstring(L, -1, &n) != NULL && n == 0)) {
            lua_pop(L, 1);
            break;
        }
        if (lua_type(L, -1) != LUA_TSTRING) {
            luaL_error(L, "reader function must return a string");
        }
        if (luaL_bufflen(&b) + n > VM_LOAD_MAX) {
            luaL_error(L, "the chunk is larger than 256 KiB");
        }
        limit__charge(L, n);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    lua_replace(L, 1);
}

int guard_load(lua_State *L)
{
    bool pieces = !lua_isstring(L, 1);
    int env = lua_isnone(L, 4) ? 0 : 4;
    const char *mode = luaL_optstring(L, 3, "bt");
    if (pieces) {
        luaL_checktype(L, 1, LUA_TFUNCTION);
        read_pieces(L);
    }
    size_t n;
    const char *p = lua_tolstring(L, 1, &n);
    const char *chunk = luaL_optstring(L, 2, pieces ? "=(load)" : p);
    if (strchr(mode, 't') == NULL) {
        lua_pushnil(L);
        lua_pushfstring(L, "attempt to load a text chunk (mode is '%s')", mode);
        return 2;
    }
    return load_text(L, (struct str){p, n}, chunk, env);
}

/// Load a regular file. Other files are refused: reading them could block.
static int load_file(lua_State *L, const char *path, int env)
{
    struct buf bytes = {.max = VM_LOAD_MAX};
    struct err e;
    if (path_read(path, &bytes, &e) < 0) {
        return args_fail(L, "%s", e.msg);
    }
    vm_of(L)->lenient++; // an error here would lose `bytes`
    struct str text = {lua_pushlstring(L, buf_z(&bytes), bytes.n), bytes.n};
    vm_of(L)->lenient--;
    buf_fini(&bytes);
    if (str_starts(text, "#")) { // a script's first line
        struct str rest = text;
        str_cut(&rest, '\n');
        text = rest.p != NULL ? (struct str){rest.p - 1, rest.n + 1} : STR("");
    }
    return load_text(L, text, lua_pushfstring(L, "@%s", path), env);
}

int guard_loadfile(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    return load_file(L, path, lua_isnone(L, 3) ? 0 : 3);
}

static int after_dofile(lua_State *L, int status, lua_KContext ctx)
{
    (void)status;
    (void)ctx;
    return lua_gettop(L) - 1;
}

int guard_dofile(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    lua_settop(L, 1);
    if (load_file(L, path, 0) != 1) {
        return lua_error(L);
    }
    lua_replace(L, 2); // over the file's text and the chunk's name
    lua_settop(L, 2);
    lua_callk(L, 0, LUA_MULTRET, 0, after_dofile);
    return after_dofile(L, LUA_OK, 0);
}

/// Can it be opened without waiting?
static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

int guard_searchpath(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1), *path = luaL_checkstring(L, 2);
    const char *sep = luaL_optstring(L, 3, "."), *rep = luaL_optstring(L, 4, LUA_DIRSEP);
    if (sep[0] != '\0') {
        name = luaL_gsub(L, name, sep, rep);
    }
    struct str rest = str_of(luaL_gsub(L, path, LUA_PATH_MARK, name));
    lua_pushliteral(L, "");
    while (rest.n != 0) {
        struct str one = str_cut(&rest, LUA_PATH_SEP[0]);
        const char *file = lua_pushlstring(L, one.p, one.n);
        limit__check(L);
        if (is_file(file)) {
            return 1;
        }
        lua_pushfstring(L, "%s\n\tno file '%s'", lua_tostring(L, -2), file);
        lua_replace(L, -3);
        lua_pop(L, 1);
    }
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
}

int guard_loadlib(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    if (strchr(path, '/') != NULL && !is_file(path)) {
        lua_pushnil(L);
        lua_pushfstring(L, "cannot open '%s': no such file", path);
        lua_pushliteral(L, "open");
        return 3;
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/// Look for the module `name` in the field `key` of `package`. Pushes its file, or nil and where it looked.
static bool find_module(lua_State *L, const char *name, const char *key)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, "package");
    lua_pushcfunction(L, guard_searchpath);
    lua_pushstring(L, name);
    lua_getfield(L, -3, key);
    lua_call(L, 2, 2);
    bool found = !lua_isnil(L, -2);
    if (found) {
        lua_pop(L, 1);
    }
    return found;
}

int guard_searcher_c(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    bool whole = !lua_toboolean(L, lua_upvalueindex(2)); // else: in the library of its first part
    lua_pushlstring(L, name, whole ? strlen(name) : strcspn(name, "."));
    if ((!whole && strchr(name, '.') == NULL) || !find_module(L, lua_tostring(L, -1), "cpath")) {
        return whole || strchr(name, '.') != NULL ? 1 : 0;
    }
    const char *path = lua_tostring(L, -1), *version = strchr(name, '-');
    const char *entry = luaL_gsub(L, version != NULL ? version + 1 : name, ".", "_");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushstring(L, path);
    lua_pushfstring(L, "luaopen_%s", entry);
    lua_call(L, 2, 2);
    if (lua_isnil(L, -2)) {
        return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, path,
                          lua_tostring(L, -1));
    }
    lua_pop(L, 1);
    lua_pushstring(L, path);
    return 2;
}

int guard_searcher(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    if (!find_module(L, name, "path")) {
        return 1; // where it looked
    }
    const char *path = lua_tostring(L, -1);
    if (load_file(L, path, 0) != 1) {
        return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, path,
                          lua_tostring(L, -1));
    }
    lua_pushstring(L, path);
    return 2;
}

// ---- the rest of the globals ----------------------------------------------------------------

int guard_collectgarbage(lua_State *L)
{
    static const char *const names[] = {"collect", "count", "step", "isrunning", NULL};
    int what = luaL_checkoption(L, 1, "collect", names);
    struct vm *vm = vm_of(L);
    if (what == 1) {
        lua_pushnumber(L, (lua_Number)vm->used / 1024);
        return 1;
    }
    if (what == 3) {
        return args_bool(L, true);
    }
    limit__charge(L, vm->used);
    lua_gc(L, LUA_GCCOLLECT);
    limit__check(L);
    lua_pushinteger(L, 0);
    return 1;
}

int guard_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    libs__push_text(L, 1);
    return 1;
}

int guard_exit(lua_State *L)
{
    return luaL_error(L, "os.exit is not for code inside the hub");
}

int guard_setlocale(lua_State *L)
{
    const char *want = luaL_optstring(L, 1, NULL); // the locale is the whole process's
    bool same = want == NULL || want[0] == '\0' || strcmp(want, "C") == 0;
    lua_pushstring(L, same ? "C" : NULL);
    return 1;
}

int guard_absent(lua_State *L)
{
    return luaL_error(L, "not available here");
}

// ---- debug ----------------------------------------------------------------------------------

int guard_debug_setmetatable(lua_State *L)
{
    check_meta(L);
    luaL_argcheck(L, !lua_isuserdata(L, 1), 1, "the metatable of a userdata cannot be changed");
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

int guard_debug_setlocal(lua_State *L)
{
    int at = lua_isthread(L, 1) ? 1 : 0;
    lua_State *of = at == 1 ? lua_tothread(L, 1) : L;
    lua_Debug ar;
    if (!lua_getstack(of, (int)luaL_checkinteger(L, at + 1), &ar)) {
        return luaL_argerror(L, at + 1, "level out of range");
    }
    lua_getinfo(of, "S", &ar);
    luaL_argcheck(L, strcmp(ar.what, "C") != 0, at + 1, "this function has no locals");
    int n = (int)luaL_checkinteger(L, at + 2);
    luaL_checkany(L, at + 3);
    lua_settop(L, at + 3);
    if (!lua_checkstack(of, 1)) {
        return luaL_error(L, "stack overflow");
    }
    lua_xmove(L, of, 1);
    const char *name = lua_setlocal(of, &ar, n);
    if (name == NULL) {
        lua_pop(of, 1);
    }
    lua_pushstring(L, name);
    return 1;
}

static void check_lua_function(lua_State *L, int idx)
{
    luaL_checktype(L, idx, LUA_TFUNCTION);
    luaL_argcheck(L, !lua_iscfunction(L, idx), idx, "Lua function expected");
}

int guard_debug_getupvalue(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    int n = (int)luaL_checkinteger(L, 2);
    const char *name = lua_iscfunction(L, 1) ? NULL : lua_getupvalue(L, 1, n);
    if (name == NULL) {
        return 0;
    }
    lua_pushstring(L, name);
    lua_insert(L, -2);
    return 2;
}

int guard_debug_setupvalue(lua_State *L)
{
    check_lua_function(L, 1);
    luaL_checkany(L, 3);
    lua_settop(L, 3);
    const char *name = lua_setupvalue(L, 1, (int)luaL_checkinteger(L, 2));
    lua_pushstring(L, name);
    return name != NULL;
}

int guard_debug_upvaluejoin(lua_State *L)
{
    check_lua_function(L, 1);
    check_lua_function(L, 3);
    int a = (int)luaL_checkinteger(L, 2), b = (int)luaL_checkinteger(L, 4);
    luaL_argcheck(L, lua_upvalueid(L, 1, a) != NULL, 2, "invalid upvalue index");
    luaL_argcheck(L, lua_upvalueid(L, 3, b) != NULL, 4, "invalid upvalue index");
    lua_upvaluejoin(L, 1, a, 3, b);
    return 0;
}

int guard_debug_traceback(lua_State *L)
{
    int at = lua_isthread(L, 1) ? 1 : 0;
    lua_State *of = at == 1 ? lua_tothread(L, 1) : L;
    if (!lua_isnoneornil(L, at + 1) && !lua_isstring(L, at + 1)) {
        lua_pushvalue(L, at + 1); // not a message: given back as it is
        return 1;
    }
    const char *message = lua_tostring(L, at + 1);
    lua_Integer level = luaL_optinteger(L, at + 2, of == L ? 1 : 0);
    if (message != NULL) {
        lua_pushvalue(L, at + 1);
        lua_pushliteral(L, "\n");
    }
    lua_pushliteral(L, "stack traceback:\n");
    fault__push_traceback(L, of, (int)MIN(MAX(level, 0), INT32_MAX / 2));
    lua_concat(L, message != NULL ? 4 : 2);
    return 1;
}
