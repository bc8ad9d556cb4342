// The Lua faces as a whole, and the owners of what they make.
//
// A face is a handful of C functions in one table. They find the hub's parts through the state
// (vm_arg) and whose code called through the running entry: its vm_owner leads to a bind_owner, that
// to the unit of the generation.
//
//     lua_State ── vm_of ── vm_arg ──> struct bind       loop, store, events, watcher, ...
//         └── running entry ── vm_owner ──> struct bind_owner ──> struct gen_unit
//
// An owner follows its unit: staged (what it makes waits), live, left (timers, watches, subscriptions
// are stopped by the engine, requests with a callback are cancelled here), released (closed). Its
// first item tells it of these steps in the very turn in which they happen.

#include "bind/bind.h"

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"
#include "bind/plugin_int.h"

enum { FILE_THREADS = 4 };

static const struct {
    const char *name;
    lua_CFunction open;        // NULL: the table of
    const luaL_Reg *functions; // these
} faces[] = {
    {"exec", face_exec, NULL},
    {"http", NULL, face_http},
    {"watch", NULL, face_watch},
    {"store", NULL, face_store},
    {"secrets", NULL, face_secrets},
    {"hub", face_hub, NULL},
    {"worktree", face_worktree, NULL},
    {"on", face_on, NULL},
    {"pty", face_pty, NULL},
    {"websocket", NULL, face_websocket},
    {"action_cable", NULL, face_action_cable},
    {"sqlite", NULL, face_sqlite},
};

// ---- owners -----------------------------------------------------------------------------------

static struct str owner_key(struct vm_owner *const *o)
{
    return (struct str){(const char *)o, sizeof(struct vm_owner *)};
}

static void life_start(void *data)
{
    struct bind_owner *o = data;
    o->live = true;
    bind__regs_start(o);
}

static void life_stop(void *data)
{
    struct bind_owner *o = data;
    o->live = false;
    bind__regs_stop(o);
    bind__ops_cancel(o);
}

static const struct gen_item_ops life_ops = {.start = life_start, .stop = life_stop};

static void read_limits(struct bind *b)
{
    const struct {
        const char *key;
        uint32_t *to;
    } limits[] = {
        {"limits.lua_ms", &b->limits.lua_ms},   {"limits.load_ms", &b->limits.load_ms},
        {"limits.hook_ms", &b->limits.hook_ms}, {"limits.start_ms", &b->limits.start_ms},
        {"limits.tool_ms", &b->limits.tool_ms}, {"limits.memory_mb", &b->limits.memory_mb},
        {"limits.host_mb", &b->limits.host_mb},
    };
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        *limits[i].to = (uint32_t)config_int(b->o.hub->config->now, limits[i].key);
    }
}

static void on_settings(void *arg)
{
    struct bind *b = arg;
    size_t at = 0;
    struct str key;
    void *o;
    read_limits(b);
    while (map_next(&b->owners, &at, &key, &o)) {
        vm_set_memory(((struct bind_owner *)o)->vm, (size_t)b->limits.memory_mb << 20);
    }
}

// ---- public -----------------------------------------------------------------------------------

struct bind *bind_open(const struct bind_opts *o)
{
    struct bind *b = xcalloc(1, sizeof *b);
    assert(o->hub->loop != NULL && o->engine != NULL && o->hub->home != NULL);
    b->o = *o;
    if (o->stalled_path != NULL && watchdog_read(o->stalled_path, &b->stalled)) {
        log_warn(LOG_HUB, "unit=%s run=false reason=\"it stalled the hub\" path=%s line=%d",
                 LOGQ(str_of(b->stalled.unit)).z, LOGQ(str_of(b->stalled.path)).z, b->stalled.line);
    }
    b->files = lane_open(o->hub->loop, "lua-files", FILE_THREADS);
    map_init(&b->owners);
    map_init(&b->regs);
    map_init(&b->logs);
    map_init(&b->contexts);
    read_limits(b);
    config_listen(b->o.hub->config, on_settings, b);
    b->plugins = plugin__open(b);
    return b;
}

const struct watchdog_stall *bind_stalled(const struct bind *b)
{
    return b->stalled.unit[0] != '\0' ? &b->stalled : NULL;
}

bool bind__check_stall(struct bind *b, const char *unit, const char *hash, bool on_disk,
                       char text[BIND__STALL_TEXT])
{
    const struct watchdog_stall *s = &b->stalled;
    bool named = s->unit[0] != '\0' && strcmp(s->unit, unit) == 0;
    bool same = named && strcmp(s->content, hash) == 0;
    if (same) {
        snprintf(text, BIND__STALL_TEXT,
                 "it kept the hub from answering for %llu ms until the hub was killed, and is not "
                 "run until it changes",
                 (unsigned long long)s->ms);
    } else if (named && on_disk) { // another text is another try
        b->stalled = (struct watchdog_stall){0};
        unlink(b->o.stalled_path);
    }
    return same;
}

void bind_set_plugins(struct bind *b, struct plugins *ps)
{
    b->all_plugins = ps;
}

void bind_set_ops(struct bind *b, bind_run_op *run, struct api *api)
{
    b->run_op = run;
    b->api = api;
}

void bind_stop(struct bind *b)
{
    size_t at = 0;
    struct str key;
    void *o;
    b->stopped = true;
    bind__dispatches_cancel(b);
    while (map_next(&b->owners, &at, &key, &o)) {
        bind__calls_cancel(o);
        bind__ops_cancel(o);
    }
}

void bind_close(struct bind *b)
{
    if (b == NULL) {
        return;
    }
    config_unlisten(b->o.hub->config, on_settings, b);
    plugin__close(b->plugins);
    assert(b->owners.n == 0 && b->regs.n == 0 && b->contexts.n == 0);
    bind__hooks_close(b);
    bind__worktrees_close(b);
    lane_close(b->files);
    bind__logs_close(b);
    map_fini(&b->owners);
    map_fini(&b->regs);
    map_fini(&b->contexts);
    free(b);
}

struct vm *bind_vm_open(struct bind *b)
{
    struct vm_opts opts = {
        .trust = VM_USER,
        .memory_max = (size_t)b->limits.memory_mb << 20,
        .log = bind__log,
        .arg = b,
        .backend = &bind__backend,
    };
    struct vm *vm = vm_open(&opts);
    for (size_t i = 0; i < ARRAY_LEN(faces); i++) {
        if (faces[i].open != NULL) {
            vm_add_lib(vm, faces[i].name, faces[i].open);
        } else {
            vm_add_functions(vm, faces[i].name, faces[i].functions);
        }
    }
    face_hooks(vm);
    face_points(vm);
    vm_replace(vm, "os", "execute", face_os_execute);
    vm_replace(vm, "io", "popen", face_io_popen);
    face_io_files(vm);
    return vm;
}

struct bind *bind_of(lua_State *L)
{
    return vm_arg(vm_of(L));
}

struct bind_owner *bind_owner_open(struct bind *b, struct vm *vm, struct gen_unit *unit)
{
    struct bind_owner *o = xcalloc(1, sizeof *o);
    struct gen_item_spec life = {.kind = GEN_SUBSCRIPTION, .ops = &life_ops, .data = o};
    assert(unit->life == GEN_STAGING);
    o->bind = b;
    o->vm = vm;
    o->unit = unit;
    o->owner = vm_owner_open(vm, unit->name);
    o->usage = xcalloc(1, sizeof *o->usage);
    map_set(&b->owners, owner_key(&o->owner), o);
    int rc = gen_unit_add(unit, &life, NULL, NULL);
    assert(rc == 0); // it is being staged
    (void)rc;
    return o;
}

void bind_owner_close(struct bind_owner *o)
{
    if (o == NULL) {
        return;
    }
    o->live = false;
    bind__calls_cancel(o);
    bind__ops_cancel(o);
    bind__regs_close(o);
    assert(o->calls == NULL && o->ops == NULL && o->regs == NULL);
    map_remove(&o->bind->owners, owner_key(&o->owner));
    vm_owner_close(o->owner);
    bind__usage_free(o->usage, o->bind->o.hub->loop);
    free(o);
}

struct bind_owner *bind_owner_running(lua_State *L)
{
    return bind_owner_find(bind_of(L), vm_owner_running(vm_of(L)));
}

struct bind_owner *bind_owner_find(struct bind *b, struct vm_owner *o)
{
    return o != NULL ? map_get(&b->owners, owner_key(&o)) : NULL;
}

struct bind_owner *bind__owner(lua_State *L)
{
    struct bind_owner *o = bind_owner_running(L);
    if (o == NULL) {
        luaL_error(
            L, "cannot be called here: no module or plugin is running that would own the result");
    }
    return o;
}
