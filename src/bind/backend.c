// The backend of the libraries (lua/lib.h) in the hub: timers, events, hooks and files of this process.

#include "bind/bind_int.h"
#include "config/config.h"
#include "config/home.h"

static const struct json *settings(lua_State *L, struct arena *a)
{
    return config_values(bind_of(L)->o.hub->config->now, a);
}

static const char *data_dir(lua_State *L)
{
    return bind_of(L)->o.hub->home->dir;
}

const struct lib_backend bind__backend = {
    .config = settings,
    .data_dir = data_dir,
    .timers = &bind__timers,
    .events = &bind__events,
    .hooks = &bind__hooks,
    .fs = &bind__fs,
};
