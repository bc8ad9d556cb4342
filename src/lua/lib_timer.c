// timer: after, every, cancel, sleep.
//
// `every` never overlaps itself: a time that comes while its handler is under way is left out.

#include "lua/args.h"
#include "lua/lib.h"
#include "lua/vm_int.h"

static int add(lua_State *L, const char *who, bool again)
{
    uint64_t ms = args_ms(L, 1, who, "the time");
    args_fn(L, 2, who);
    lua_settop(L, 2);
    return vm_of(L)->backend->timers->add(L, who, ms, again);
}

static int timer_after(lua_State *L)
{
    return add(L, "timer.after", false);
}

static int timer_every(lua_State *L)
{
    return add(L, "timer.every", true);
}

static int timer_cancel(lua_State *L)
{
    return args_bool(L, vm_of(L)->backend->timers->cancel(L, (uint64_t)lua_tointeger(L, 1)));
}

static int timer_sleep(lua_State *L)
{
    uint64_t ms = args_ms(L, 1, "timer.sleep", "the time");
    lua_settop(L, 1);
    entry_check_wait(L);
    return vm_of(L)->backend->timers->sleep(L, ms);
}

const luaL_Reg lib_timer[] = {{"after", timer_after},
                              {"every", timer_every},
                              {"cancel", timer_cancel},
                              {"sleep", timer_sleep},
                              {NULL, NULL}};
