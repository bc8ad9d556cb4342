// coroutine.*, under the limits of the entry.
//
// Differences from Lua's own library: exceeding a limit inside a coroutine also ends the code that resumed it; a wait
// (entry_wait) inside a coroutine suspends the code that resumed it as well, up to the entry, and resumes it the same way;
// Lua code cannot touch the hub's own coroutines.
//
//     entry ── resume ── A ── resume ── B ── http.get()
//       ^                ^ yields       ^ yields: B waits, then A, then the entry
//       └── wake ───────>└─────────────>└ continues with the values

#include "lua/corout.h"

#include "lua/args.h"
#include "lua/vm_int.h"

enum { AS_RESUME = 1, AS_WRAP = 0 }; // how many values are below the arguments

static lua_State *coroutine_at(lua_State *L, int idx)
{
    lua_State *co = lua_tothread(L, idx);
    luaL_argexpected(L, co != NULL, idx, "coroutine");
    return co;
}

/// The coroutine that a call works on: resume has it as argument, wrap as upvalue.
static lua_State *target(lua_State *L, lua_KContext how)
{
    return lua_tothread(L, how == AS_RESUME ? 1 : lua_upvalueindex(1));
}

/// NULL when `co` may be resumed or closed from Lua.
static const char *refusal(lua_State *co)
{
    switch (vm__mark_of(co)->kind) {
    case MARK_ENTRY: return "this coroutine belongs to the hub";
    case MARK_WAITING: return "this coroutine is waiting";
    case MARK_POISONED: return "this coroutine was ended by a limit";
    default: return NULL;
    }
}

/// Move the `n` values on top of `co` to the caller, as resume or wrap does. `ok` is false for an error.
static int deliver(lua_State *L, lua_State *co, bool ok, int n, lua_KContext how)
{
    if (!lua_checkstack(L, n + 2)) {
        lua_pop(co, n);
        return luaL_error(L, "too many results to resume");
    }
    if (how == AS_RESUME) {
        lua_pushboolean(L, ok);
    }
    lua_xmove(co, L, n);
    return n + (how == AS_RESUME);
}

/// lua_resume() with the state's books kept; with `nargs` -1 lua_resetthread(), whose __close handlers run on `co`.
static int run(lua_State *L, lua_State *co, int nargs, int *n)
{
    struct vm *vm = vm_of(L);
    struct vm__level here = {L, vm->level};
    limit__arm(vm, co);
    vm->level = &here;
    vm->running = co;
    int status = nargs >= 0 ? lua_resume(co, L, nargs, n) : lua_resetthread(co);
    vm->running = L;
    vm->level = here.up;
    limit__arm(vm, L);
    if (vm->active->trip != TRIP_NONE) {
        vm__mark(co, vm, MARK_POISONED);
    }
    return status;
}

static int reset(lua_State *L, lua_State *co)
{
    int status = run(L, co, -1, NULL);
    limit__caught(L, status);
    return status;
}

static int fail(lua_State *L, lua_State *co, lua_KContext how)
{
    if (how == AS_RESUME) {
        return deliver(L, co, false, 1, how);
    }
    if (lua_status(co) != LUA_OK) { // OK: it was not even resumed
        reset(L, co);
    }
    lua_xmove(co, L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int refuse(lua_State *L, const char *why, lua_KContext how)
{
    if (how == AS_WRAP) {
        return luaL_error(L, "cannot resume: %s", why);
    }
    lua_pushboolean(L, 0);
    lua_pushfstring(L, "cannot resume: %s", why);
    return 2;
}

static int resume(lua_State *L, lua_KContext how);

static int on_wake(lua_State *L, int status, lua_KContext how)
{
    (void)status;
    vm__mark(target(L, how), vm_of(L), MARK_PLAIN);
    return resume(L, how);
}

/// Resume with the values on the stack above the first `how`.
static int resume(lua_State *L, lua_KContext how)
{
    lua_State *co = target(L, how);
    struct vm *vm = vm_of(L);
    int nargs = lua_gettop(L) - (int)how, n;
    if (co == L || !lua_checkstack(co, nargs)) {
        return refuse(L, co == L ? "it is not suspended" : "too many arguments", how);
    }
    lua_xmove(L, co, nargs);
    int status = run(L, co, nargs, &n);
    if (status == LUA_YIELD && vm->active->wait != NULL) {
        vm__mark(co, vm, MARK_WAITING);
        return lua_yieldk(L, 0, how, on_wake);
    }
    if (status == LUA_OK || status == LUA_YIELD) {
        return deliver(L, co, true, n, how);
    }
    limit__caught(L, status);
    return fail(L, co, how);
}

int corout_create(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

int corout_resume(lua_State *L)
{
    const char *why = refusal(coroutine_at(L, 1));
    return why != NULL ? refuse(L, why, AS_RESUME) : resume(L, AS_RESUME);
}

static int wrapped(lua_State *L)
{
    const char *why = refusal(target(L, AS_WRAP));
    return why != NULL ? refuse(L, why, AS_WRAP) : resume(L, AS_WRAP);
}

int corout_wrap(lua_State *L)
{
    corout_create(L);
    lua_pushcclosure(L, wrapped, 1);
    return 1;
}

int corout_yield(lua_State *L)
{
    if (vm__mark_of(L)->kind == MARK_ENTRY) {
        return luaL_error(L, "attempt to yield from outside a coroutine");
    }
    return lua_yield(L, lua_gettop(L));
}

int corout_close(lua_State *L)
{
    lua_State *co = coroutine_at(L, 1);
    const char *why = refusal(co);
    lua_Debug ar;
    if (why == NULL && (co == L || (lua_status(co) == LUA_OK && lua_getstack(co, 0, &ar)))) {
        why = "it is running";
    }
    if (why != NULL) {
        return luaL_error(L, "cannot close: %s", why);
    }
    int status = reset(L, co);
    lua_pushboolean(L, status == LUA_OK);
    if (status == LUA_OK) {
        return 1;
    }
    lua_xmove(co, L, 1);
    return 2;
}

int corout_running(lua_State *L)
{
    lua_pushthread(L);
    lua_pushboolean(L, vm__mark_of(L)->kind == MARK_ENTRY);
    return 2;
}

int corout_isyieldable(lua_State *L)
{
    lua_State *co = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
    return args_bool(L, vm__mark_of(co)->kind == MARK_PLAIN && lua_isyieldable(co));
}
