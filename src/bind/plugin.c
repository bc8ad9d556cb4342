// The Lua host of plugins in the hub: one Lua state for each plugin, one environment for each version.
//
//     plugins' source ── load ──> home (Lua state, hub.state) ── environment ── server file runs
//                                    │ kept over versions          │ registers: hooks, tools, routes, ...
//                     ── keep ──> what it did to hub.state stays; it is what require "plugin.NAME" sees
//                     ── free ──> owner, references and, with the last version, the state
//
//     plugin_home.c    states, and hub.state beyond them  offer.c        calling tools, commands, prompts
//     plugin_load.c    running files, require             offer_tool.c   schemas and results of tools
//     plugin_api.c     the authoring API                  offer_route.c  requests and answers of routes
//     plugin_table.c   the same as one table              agent_args.c   ctx, call, result, ...
//     plugin_link.c    from plugin to plugin
//
// A version that fails is taken apart here, before load() returns: its registrations are taken back
// while their owner still lives, and hub.state is as it was.
//
// Versions share a state, so a version that fills it may only have lacked room beside the serving one: it is tried again in
// a state of its own.
//
// Invariants:
//   - between load() and keep() or free() of a version its changes of hub.state are logged, and nothing else runs in
//     that state.

#include <lauxlib.h>

#include "bind/plugin_int.h"

// ---- the runner ---------------------------------------------------------------------------------

static void runner_free(struct plugin_version *head)
{
    struct plugin__version *v = container_of(head, struct plugin__version, head);
    struct plugin__plugins *ps = v->owner->bind->plugins;
    if (map_get(&ps->live, str_of(v->unit->name)) == v) {
        map_remove(&ps->live, str_of(v->unit->name));
    }
    if (v->home != NULL) {
        state_end_alone(v->home->state, false);
    }
    plugin__modules_free(v);
    bind_owner_close(v->owner);
    gen_diag_fini(&v->fault);
    arena_fini(&v->arena);
    if (v->home != NULL) {
        plugin__home_leave(v->home);
    }
    free(v);
}

/// Load once. On failure `crowded` says whether it filled a state that it shares with other versions.
static int load(struct plugin__plugins *ps, const struct plugin_code *code, struct gen_unit *u,
                bool dry_run, struct plugin_version **out, struct gen_diag *fault, bool *crowded)
{
    struct plugin__home *h = plugin__home_enter(ps, code, dry_run);
    struct plugin__version *v = xcalloc(1, sizeof *v);
    v->home = h;
    plugin__version_init(v, ps, code, h->vm, u);
    state_end_alone(h->state, true); // an earlier version that was neither kept nor freed yet
    state_begin_alone(h->state);
    int rc = plugin__run(v, fault);
    *crowded = vm_get_stats(h->vm).dead && h->versions > 1;
    if (rc < 0) {
        while (gen_unit_count(u) != 0) { // its registrations lead to an owner that goes now
            int off = gen_item_off(gen_unit_at(u, gen_unit_count(u) - 1), NULL);
            assert(off == 0); // it is being staged
            (void)off;
        }
        runner_free(&v->head);
        return rc;
    }
    plugin__home_say(v);
    *out = &v->head;
    return 0;
}

static int runner_load(void *arg, const struct plugin_code *code, struct gen_unit *u, bool dry_run,
                       struct plugin_version **out, struct gen_diag *fault)
{
    struct plugin__plugins *ps = arg;
    bool crowded;
    if (plugin__home_refuses(ps, code, fault)) {
        return ERR_DENIED;
    }
    int rc = load(ps, code, u, dry_run, out, fault, &crowded);
    if (rc < 0 && crowded) {
        gen_diag_fini(fault);
        rc = load(ps, code, u, dry_run, out, fault, &crowded);
    }
    return rc;
}

static void runner_keep(struct plugin_version *head)
{
    struct plugin__version *v = container_of(head, struct plugin__version, head);
    if (v->home != NULL) {
        state_end_alone(v->home->state, true);
    }
    map_set(&v->owner->bind->plugins->live, str_of(v->unit->name), v);
}

static bool runner_dead(const struct plugin_version *head)
{
    const struct plugin__version *v = (const struct plugin__version *)head; // its first member
    return vm_get_stats(v->owner->vm).dead;
}

/// A lifecycle call: functions of the plugin's table, as modules have them, then its handlers.
static void tell(struct plugin__version *v, enum bind_life which, enum gen_reason why,
                 struct gen_life_call *call)
{
    bool start = which == BIND_START;
    const char *name = start               ? "_after_reload"
                       : why == GEN_RELOAD ? "_before_reload"
                                           : "_before_unload";
    struct gen_diag fault = {0};
    if (!start || why == GEN_RELOAD) {
        bind__call_life(v->owner, v->value, name, start ? DIAG_START_FAILED : DIAG_SHUTDOWN_FAILED,
                        start ? DIAG_START_FAILED : DIAG_SHUTDOWN_TIMEOUT, &fault);
    }
    bind_owner_tell(v->owner, which, why, &fault, false, call);
}

static void runner_enter(struct plugin_version *head, enum gen_reason why,
                         struct gen_life_call *call)
{
    tell(container_of(head, struct plugin__version, head), BIND_START, why, call);
}

static void runner_leave(struct plugin_version *head, enum gen_reason why,
                         struct gen_life_call *call)
{
    struct plugin__version *v = container_of(head, struct plugin__version, head);
    if (runner_dead(head)) { // no code can run there any more; end the calls that wait in it
        vm_kill(v->owner->vm);
        gen_life_done(call, NULL);
        return;
    }
    tell(v, BIND_SHUTDOWN, why, call);
}

static size_t runner_memory(const struct plugin_version *head)
{
    const struct plugin__version *v = (const struct plugin__version *)head; // its first member
    return vm_get_stats(v->owner->vm).memory;
}

static uint64_t runner_writes(const void *arg)
{
    const struct plugin__plugins *ps = arg;
    return ps->bind->writes;
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
        .dead = runner_dead,
        .writes = runner_writes,
        .arg = ps,
    };
    map_init(&ps->homes);
    map_init(&ps->kept);
    map_init(&ps->live);
    return ps;
}

void plugin__close(struct plugin__plugins *ps)
{
    assert(ps->live.n == 0);
    plugin__homes_close(ps);
    map_fini(&ps->live);
    free(ps);
}

void plugin__version_init(struct plugin__version *v, struct plugin__plugins *ps,
                          const struct plugin_code *code, struct vm *vm, struct gen_unit *u)
{
    assert(v->owner == NULL && u != NULL && code->tree != NULL);
    v->head.runner = &ps->runner;
    v->head.code = code;
    v->unit = u;
    v->owner = bind_owner_open(ps->bind, vm, u);
    v->owner->plugin = v;
    vm_owner_set_content(v->owner->owner, code->tree->hash);
    v->arena = (struct arena){0};
    map_init(&v->modules);
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
