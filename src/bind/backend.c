// The backend of the libraries (lua/lib.h) in the hub: timers, events, hooks and files of this process.

#include "bind/bind_int.h"
#include "config/config.h"
#include "config/home.h"

static const struct json *settings(lua_State *L, struct arena *a)
{
    return config_values(bind_of(L)->config->now, a);
}

static const char *data_dir(lua_State *L)
{
    return bind_of(L)->home->dir;
}

const struct lib_backend bind__backend = {
    .config = settings,
    .data_dir = data_dir,
    .timer_add = bind__timer_add,
    .timer_cancel = bind__timer_cancel,
    .sleep = bind__sleep,
    .event_on = bind__event_on,
    .event_off = bind__event_off,
    .event_emit = bind__event_emit,
    .hook_add = bind__hook_on,
    .hook_off = bind__hook_off,
    .fs =
        {
            .resolve = bind__fs_resolve,
            .run = bind__fs_run,
            .open = bind__fs_open,
            .write = bind__fs_write,
            .append = bind__fs_append,
            .mkdir = bind__fs_mkdir,
            .remove = bind__fs_remove,
            .rename = bind__fs_rename,
        },
};
