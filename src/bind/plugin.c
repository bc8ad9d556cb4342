// The Lua host of plugins in the hub: one Lua state for each plugin, one environment for each version.
//
//     plugins' source ── load ──> home (Lua state, hub.state) ── environment ── server file runs
//                                    │ kept over versions          │ registers: hooks, tools, routes, ...
//                     ── keep ──> what it did to hub.state stays; it is what require "plugin.NAME" sees
//                     ── free ──> owner, references and, with the last version, the state
//
//     plugin_load.c    running files, require             offer.c        calling tools, commands, prompts
//     plugin_api.c     the authoring API                  offer_tool.c   schemas and results of tools
//     plugin_table.c   the same as one table              offer_route.c  requests and answers of routes
//     plugin_link.c    from plugin to plugin              agent_args.c   ctx, call, result, ...
//
// A version that fails is taken apart here, before load() returns: its registrations are taken back
// while their owner still lives, and hub.state is as it was.
//
// Invariants:
//   - a home has as many `versions` as were loaded into it and not freed.
//   - between load() and keep() or free() of a version its changes of hub.state are written down, and
//     nothing else runs in that state.

#include <lauxlib.h>

#include "base/sha256.h"
#include "bind/plugin_int.h"

// ---- homes --------------------------------------------------------------------------------------

char *plugin__namespace(const struct plugin_code *code)
{
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    if (code->project == NULL) {
        return xstrdup(code->name);
    }
    sha256_of(str_of(code->project), hash); // the same plugin of another project is another one
    return xasprintf("%s@%.12s", code->name, sha256_hex(hash, hex));
}

static vm_ref make_env_meta(struct plugin__home *h)
{
    lua_State *L = vm_main(h->vm);
    lua_newtable(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_setfield(L, -2, "__index");
    return refs_take(L, h->own);
}

static struct plugin__home *home_open(struct plugin__plugins *ps)
{
    struct plugin__home *h = xcalloc(1, sizeof *h);
    h->plugins = ps;
    h->vm = bind_vm_open(ps->bind);
    h->own = vm_owner_open(h->vm, "plugin", 0);
    h->env_meta = make_env_meta(h);
    h->state = state_new(h->vm);
    vm_add_lib(h->vm, "state", state_open_lib);
    plugin__open_api(h->vm);
    vm_replace(h->vm, "_G", "require", plugin__require);
    return h;
}

static void home_close(struct plugin__home *h)
{
    state_free(h->state);
    vm_owner_close(h->own);
    vm_close(h->vm);
    free(h->key);
    free(h);
}

/// No version is left: what it keeps in hub.state keeps the Lua state, until the hub stops.
static void home_leave(struct plugin__home *h)
{
    if (--h->versions != 0 || (h->key != NULL && state_count(h->state) != 0)) {
        return;
    }
    if (h->key != NULL) {
        map_remove(&h->plugins->homes, str_of(h->key));
    }
    home_close(h);
}

/// A state in which nothing can run any more serves no new version; it goes with its last one.
static void home_give_up(struct plugin__home *h)
{
    map_remove(&h->plugins->homes, str_of(h->key));
    free(h->key);
    h->key = NULL;
    if (h->versions == 0) {
        home_close(h);
    }
}

static struct plugin__home *home_for(struct plugin__plugins *ps, const struct plugin_code *code,
                                     bool dry_run)
{
    char *key = plugin__namespace(code);
    struct plugin__home *h = dry_run ? NULL : map_get(&ps->homes, str_of(key));
    if (h != NULL && vm_get_stats(h->vm).dead) {
        home_give_up(h);
        h = NULL;
    }
    if (h == NULL) {
        h = home_open(ps);
        h->key = dry_run ? NULL : xstrdup(key);
        if (!dry_run) {
            map_set(&ps->homes, str_of(key), h);
        }
    }
    free(key);
    h->versions++;
    return h;
}

// ---- versions -----------------------------------------------------------------------------------

static void version_free(struct plugin__version *v)
{
    struct plugin__plugins *ps = v->home->plugins;
    if (map_get(&ps->live, str_of(v->unit->name)) == v) {
        map_remove(&ps->live, str_of(v->unit->name));
    }
    state_end_alone(v->home->state, false);
    plugin__modules_free(v);
    bind_owner_close(v->owner);
    gen_diag_fini(&v->fault);
    arena_fini(&v->arena);
    home_leave(v->home);
    free(v);
}

/// Its registrations lead to an owner that goes now.
static void take_back_all(struct gen_unit *u)
{
    while (gen_unit_count(u) != 0) {
        int rc = gen_item_off(gen_unit_at(u, gen_unit_count(u) - 1), NULL);
        assert(rc == 0); // it is being staged
        (void)rc;
    }
}

// ---- the runner ---------------------------------------------------------------------------------

static int runner_load(void *arg, const struct plugin_code *code, struct gen_unit *u, bool dry_run,
                       struct plugin_version **out, struct gen_diag *fault)
{
    struct plugin__plugins *ps = arg;
    struct plugin__version *v = xcalloc(1, sizeof *v);
    v->head.runner = &ps->runner;
    v->head.code = code;
    v->home = home_for(ps, code, dry_run);
    v->unit = u;
    v->owner = bind_owner_open(ps->bind, v->home->vm, u);
    v->owner->plugin = v;
    arena_init(&v->arena);
    map_init(&v->modules);
    state_end_alone(v->home->state, true); // an earlier version that was neither kept nor freed yet
    state_begin_alone(v->home->state);
    int rc = plugin__run(v, fault);
    if (rc < 0) {
        take_back_all(u);
        version_free(v);
        return rc;
    }
    *out = &v->head;
    return 0;
}

static void runner_keep(struct plugin_version *head)
{
    struct plugin__version *v = container_of(head, struct plugin__version, head);
    state_end_alone(v->home->state, true);
    map_set(&v->home->plugins->live, str_of(v->unit->name), v);
}

static void on_told(void *arg, const struct gen_diag *fault)
{
    gen_life_done(arg, fault);
}

static void runner_enter(struct plugin_version *head, enum gen_reason why,
                         struct gen_life_call *call)
{
    struct plugin__version *v = container_of(head, struct plugin__version, head);
    bind__owner_tell(v->owner, BIND_START, why, on_told, call);
}

static void runner_leave(struct plugin_version *head, enum gen_reason why,
                         struct gen_life_call *call)
{
    struct plugin__version *v = container_of(head, struct plugin__version, head);
    bind__owner_tell(v->owner, BIND_SHUTDOWN, why, on_told, call);
}

static void runner_free(struct plugin_version *head)
{
    version_free(container_of(head, struct plugin__version, head));
}

static size_t runner_memory(const struct plugin_version *head)
{
    const struct plugin__version *v = (const struct plugin__version *)head; // its first member
    return vm_get_stats(v->home->vm).memory;
}

// ---- inside bind/ -------------------------------------------------------------------------------

struct plugin__plugins *plugin__open(struct bind *b)
{
    struct plugin__plugins *ps = xcalloc(1, sizeof *ps);
    ps->bind = b;
    ps->runner = (struct plugin_runner){
        .host = "hub",
        .load = runner_load,
        .keep = runner_keep,
        .enter = runner_enter,
        .leave = runner_leave,
        .free = runner_free,
        .memory = runner_memory,
        .arg = ps,
    };
    map_init(&ps->homes);
    map_init(&ps->live);
    return ps;
}

void plugin__close(struct plugin__plugins *ps)
{
    struct str key;
    void *home;
    for (size_t at = 0; map_next(&ps->homes, &at, &key, &home);) {
        assert(((struct plugin__home *)home)->versions == 0);
        home_close(home);
    }
    map_fini(&ps->homes);
    map_fini(&ps->live);
    free(ps);
}

struct plugin__version *plugin__running(lua_State *L, const char *fn)
{
    struct bind_owner *o = bind__owner(L);
    if (o->plugin == NULL) {
        luaL_error(L, "%s: only plugins can do this", fn);
    }
    return o->plugin;
}

// ---- public -------------------------------------------------------------------------------------

const struct plugin_runner *bind_runner(struct bind *b)
{
    return &b->plugins->runner;
}
