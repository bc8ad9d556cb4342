// watch: directory, unwatch. One call of the handler for each file whose bytes changed.

#include "watch/watch.h"

#include <lauxlib.h>

#include "base/path.h"
#include "bind/bind_int.h"
#include "bind/faces.h"

struct lua_watch {
    struct bind_reg reg;
    struct watch *watch; // while live
    char *path, *pattern;
    bool recursive, poll;
};

static struct lua_watch *watch_of(struct bind_reg *r)
{
    return container_of(r, struct lua_watch, reg);
}

static void on_batch(struct watch *watch, const struct watch_batch *batch, void *arg)
{
    struct lua_watch *w = arg;
    struct buf text = {.max = SIZE_MAX};
    struct jw jw;
    (void)watch;
    for (size_t i = 0; !batch->first && i < batch->n; i++) {
        buf_clear(&text);
        jw_init(&jw, &text);
        jw_obj(&jw);
        jw_kstrz(&jw, "path", batch->changes[i].path);
        jw_kstrz(&jw, "kind", watch_kind_name(batch->changes[i].kind));
        jw_end_obj(&jw);
        bind__reg_post(&w->reg, buf_str(&text), NULL);
    }
    buf_fini(&text);
}

static void start(struct bind_reg *r)
{
    struct lua_watch *w = watch_of(r);
    struct err e = {0};
    assert(w->watch == NULL && w->path != NULL);
    struct watch_opts opts = {
        .path = w->path,
        .pattern = w->pattern,
        .recursive = w->recursive,
        .pace.poll = w->poll,
    };
    if (watch_open(&w->watch, r->o->bind->o.watcher, &opts, on_batch, w, &e) < 0) {
        bind__note(r->o, DIAG_WATCH_DEGRADED, w->path, 0, e.msg);
    }
}

static void stop(struct bind_reg *r)
{
    watch_close(watch_of(r)->watch);
    watch_of(r)->watch = NULL;
}

static void lua_watch_free(struct bind_reg *r)
{
    struct lua_watch *w = watch_of(r);
    free(w->path);
    free(w->pattern);
    free(w);
}

static const struct bind_reg_ops ops = {
    .what = "watch",
    .quota = QUOTA_WATCH,
    .kind = GEN_WATCH,
    .start = start,
    .stop = stop,
    .free = lua_watch_free,
};

/// Is the option set? Anything but nil and false is.
static bool read_switch(lua_State *L, const char *key, bool fallback)
{
    bool given = args_field(L, 2, key);
    bool on = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return given ? on : fallback;
}

static int l_directory(lua_State *L)
{
    static const char *const keys[] = {"recursive", "pattern", "poll", NULL};
    const char *path = args_z(L, 1, "watch.directory", "path");
    const char *pattern = NULL;
    if (lua_isfunction(L, 2)) {
        lua_newtable(L);
        lua_insert(L, 2);
    }
    if (!lua_istable(L, 2)) {
        return luaL_error(L, "watch.directory: options must be a table");
    }
    args_fn(L, 3, "watch.directory");
    args_keys(L, 2, "watch.directory", keys);
    bind__owner(L);
    if (path[0] != '/' && path[0] != '~') {
        return args_fail(L, "watch.directory: '%s' is not an absolute path", path);
    }
    if (args_field(L, 2, "pattern")) {
        pattern = args_z(L, -1, "watch.directory", "pattern");
    }
    bool recursive = read_switch(L, "recursive", true), poll = read_switch(L, "poll", false);
    struct lua_watch *w = xcalloc(1, sizeof *w);
    w->path = path_expand_home(path);
    w->pattern = pattern != NULL ? xstrdup(pattern) : NULL;
    w->recursive = recursive;
    w->poll = poll;
    return bind__reg_add(L, &w->reg, &ops, str_of(w->path), 3);
}

static int l_unwatch(lua_State *L)
{
    struct bind_reg *r = bind__reg_find(L, (uint64_t)lua_tointeger(L, 1), "watch");
    return args_bool(L, r != NULL && bind__reg_off(r));
}

const luaL_Reg face_watch[] = {{"directory", l_directory}, {"unwatch", l_unwatch}, {NULL, NULL}};
