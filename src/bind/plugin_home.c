// The Lua states of plugins, and what of a plugin outlives its state.
//
//     first version ──> home opens ──> hub.state as it was kept
//     last version gone ─────────────> hub.state is kept as plain data ──> the state is closed
//     the state is full for good ────> the same at once; a run of the engine ("memory") loads the
//                                      version that serves into a new one, and what waits in the old
//                                      one ends with STALE_HANDLE
//
// What is kept lies here until the hub stops, by namespace: a plugin that is switched off and on, or
// whose file comes back, finds its data again. It is bounded by half the memory limit. Functions and
// other things that cannot be carried are named in a diagnostic of the next version.
//
// Code that fills whatever it is given must not keep the hub rebuilding: a text in whose code the state
// was full STRIKES times, each within a minute of the one before, is not run any more until it changes. One
// burst that is tried again is not enough.
//
// Invariants:
//   - a home has as many `versions` as were loaded into it and not freed.
//   - `homes` holds one home for a namespace at most, and none that was found full: those have no key
//     and go with their last version.

#include <unistd.h>

#include <lauxlib.h>

#include "base/time.h"
#include "bind/plugin_int.h"
#include "store/tree.h"

enum { STRIKES = 4 };
static const uint64_t calm_ns = 60ull * 1000000000; // that long after a death another one is news

/// What is known of a plugin beyond its Lua state.
struct plugin__kept {
    struct arena arena;
    const struct json *data; // of hub.state, in `arena`; NULL: nothing
    struct buf lost;         // what of it could not be carried; for the next version
    bool full;               // the state before was full; the same
    char struck[SHA256_HEX]; // content in whose code the state was full last, at `struck_ns`
    unsigned strikes;        // how often in a row
    uint64_t struck_ns;
    char banned[SHA256_HEX]; // content that is not run any more; "": none
};

// ---- what is kept -------------------------------------------------------------------------------

static struct plugin__kept *kept_get(struct plugin__plugins *ps, const char *key)
{
    struct plugin__kept *k = map_get(&ps->kept, str_of(key));
    if (k == NULL) {
        k = xcalloc(1, sizeof *k);
        buf_init(&k->lost, SIZE_MAX);
        map_set(&ps->kept, str_of(key), k);
    }
    return k;
}

static void save(struct plugin__home *h)
{
    struct bind *b = h->plugins->bind;
    size_t max = (size_t)b->limits.memory_mb << 19; // half of it
    if (b->stopped || state_count(h->state) == 0) {
        return;
    }
    struct plugin__kept *k = kept_get(h->plugins, h->key);
    struct buf lost = {.max = SIZE_MAX};
    arena_fini(&k->arena);
    k->data = state_save(h->state, &k->arena, max, &lost);
    if (lost.n != 0) { // what was lost before and not told yet is not lost twice
        buf_clear(&k->lost);
        buf_adds(&k->lost, buf_str(&lost));
    }
    buf_fini(&lost);
}

// ---- a state that is full -------------------------------------------------------------------------

static void on_death(void *arg, struct vm_owner *owner)
{
    struct plugin__home *h = arg;
    struct bind *b = h->plugins->bind;
    if (h->key == NULL) {
        return; // of a dry run
    }
    const struct bind_owner *o = bind_owner_find(b, owner);
    if (o != NULL && o->unit->life == GEN_CURRENT) { // one that loads fails by itself
        struct plugin__kept *k = kept_get(h->plugins, h->key);
        const char *hash = o->plugin->head.code->tree->hash;
        uint64_t now = time_mono_ns();
        bool again = strcmp(k->struck, hash) == 0 && now - k->struck_ns < calm_ns;
        k->strikes = again ? k->strikes + 1 : 1;
        if (k->strikes == STRIKES) {
            memcpy(k->banned, hash, sizeof k->banned);
        }
        memcpy(k->struck, hash, sizeof k->struck);
        k->struck_ns = now;
    }
    gen_request(b->o.engine, &(struct gen_request){.trigger = "memory"}, NULL, NULL);
}

// ---- homes --------------------------------------------------------------------------------------

// ---- inside bind/ -------------------------------------------------------------------------------

struct plugin__home *plugin__home_enter(struct plugin__plugins *ps, const struct plugin_code *code,
                                        bool dry_run)
{
    char *key = plugin_namespace(code);
    struct plugin__home *h = dry_run ? NULL : map_get(&ps->homes, str_of(key));
    if (h != NULL && vm_get_stats(h->vm).dead) {
        // nothing can run there: it serves no new version, and goes with its last one
        save(h);
        kept_get(ps, key)->full = true;
        map_remove(&ps->homes, str_of(key));
        free(h->key);
        h->key = NULL;
        h = NULL;
    }
    if (h == NULL) {
        h = xcalloc(1, sizeof *h);
        h->plugins = ps;
        h->vm = bind__code_vm_open(ps->bind, "plugin", &h->own, &h->env_meta, &h->state);
        plugin__open_aliases(h->vm);
        vm_replace(h->vm, "_G", "require", plugin__require);
        bind__seal(h->vm);
        vm_on_death(h->vm, on_death, h);
        if (!dry_run) {
            struct plugin__kept *k = map_get(&ps->kept, str_of(key));
            h->key = xstrdup(key);
            map_set(&ps->homes, str_of(key), h);
            if (k != NULL && k->data != NULL) {
                state_restore(h->state, k->data);
                k->data = NULL;
                arena_fini(&k->arena);
            }
        }
    }
    free(key);
    h->versions++;
    return h;
}

void plugin__home_leave(struct plugin__home *h)
{
    assert(h->versions > 0);
    if (--h->versions != 0) {
        return;
    }
    if (h->key != NULL) {
        save(h);
        map_remove(&h->plugins->homes, str_of(h->key));
    }
    state_free(h->state);
    vm_owner_close(h->own);
    bind__dispatches_leave(h->plugins->bind, h->vm);
    vm_close(h->vm);
    free(h->key);
    free(h);
}

bool plugin__home_refuses(struct plugin__plugins *ps, const struct plugin_code *code,
                          struct gen_diag *fault)
{
    struct bind *b = ps->bind;
    const struct watchdog_stall *s = &b->stalled;
    const char *hash = code->tree->hash;
    char *key = plugin_namespace(code);
    const struct plugin__kept *k = map_get(&ps->kept, str_of(key));
    bool banned = k != NULL && k->banned[0] != '\0' && strcmp(k->banned, hash) == 0;
    char text[BIND__STALL_TEXT];
    bool stalled = bind__check_stall(b, code->unit, hash, true, text);
    free(key);
    if (!stalled && !banned) {
        return false;
    }
    struct gen_diag d = {.code = stalled ? DIAG_LOAD_TIMEOUT : DIAG_MEMORY_LIMIT,
                         .origin = code->shape->origin,
                         .path = stalled && s->path[0] != '\0' ? s->path : code->path,
                         .line = stalled ? s->line : 0,
                         .message = stalled ? text
                                            : "it fills its memory again and again, and is not run "
                                              "until it changes"};
    *fault = gen_diag_copy(&d);
    return true;
}

void plugin__home_say(struct plugin__version *v)
{
    const char *key = v->home->key;
    struct plugin__kept *k = key != NULL ? map_get(&v->home->plugins->kept, str_of(key)) : NULL;
    if (k == NULL || (!k->full && k->lost.n == 0)) {
        return;
    }
    char *text =
        xasprintf("%s%s%s",
                  k->full ? "its Lua state was full and was made anew: it was loaded again "
                            "with the plain data of hub.state"
                          : "what hub.state held could not be carried over",
                  k->lost.n == 0 ? "" : (k->full ? "; lost: " : ": "), buf_z(&k->lost));
    bind__note(v->owner, k->full ? DIAG_MEMORY_LIMIT : DIAG_CHANGE_DROPPED, NULL, 0, text);
    free(text);
    k->full = false;
    buf_clear(&k->lost);
}

void plugin__homes_close(struct plugin__plugins *ps)
{
    struct str key;
    void *kept;
    assert(ps->homes.n == 0);
    for (size_t at = 0; map_next(&ps->kept, &at, &key, &kept);) {
        struct plugin__kept *k = kept;
        arena_fini(&k->arena);
        buf_fini(&k->lost);
        free(k);
    }
    map_fini(&ps->homes);
    map_fini(&ps->kept);
}
