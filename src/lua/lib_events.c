// events: on, off, emit.
//
// Data is copied as a JSON value from the emitter to each handler. Which names code may hear and emit is up
// to the backend.

#include "lua/args.h"
#include "lua/lib.h"
#include "lua/value.h"
#include "lua/vm_int.h"

enum { NAME_BYTES = 64 };

static struct str check_name(lua_State *L, const char *who)
{
    struct str name = args_str(L, 1, who, "the name");
    if (name.n == 0 || name.n > NAME_BYTES || strlen(name.p) != name.n ||
        str_index(name, ',') >= 0) {
        luaL_error(L, "%s: a name has 1 to %d bytes and no comma", who, NAME_BYTES);
    }
    return name;
}

static int events_on(lua_State *L)
{
    struct str name = check_name(L, "events.on");
    args_fn(L, 2, "events.on");
    lua_settop(L, 2);
    return vm_of(L)->backend->events->on(L, "events.on", name);
}

static int events_off(lua_State *L)
{
    return args_bool(L, vm_of(L)->backend->events->off(L, (uint64_t)lua_tointeger(L, 1)));
}

static int events_emit(lua_State *L)
{
    struct err e = {0};
    struct json *data;
    struct str name = check_name(L, "events.emit");
    lua_settop(L, 2);
    if (value_read(&data, &args_scratch(L)->arena, L, 2, &e) < 0) {
        return args_fail(L, "events.emit: %s", e.msg);
    }
    return vm_of(L)->backend->events->emit(L, "events.emit", name, data);
}

const luaL_Reg lib_events[] = {
    {"on", events_on}, {"off", events_off}, {"emit", events_emit}, {NULL, NULL}};
