// A Lua state that is full for good is replaced by a new one.
//
//     an entry ends, the state is dead ──> whose code was it? ──> gen_request("memory")
//                                                                      │
//     ┌────────────────────────────────────────────────────────────────┘ one run of the engine:
//     ├─ hub.state, what of it is plain data, out of the old state and into a new one (state_save.c)
//     ├─ every module that served is loaded there again, from the text that served
//     ├─ commit: the new units serve; what waits in the old state ends with STALE_HANDLE
//     └─ files that are not what serves (changed meanwhile, or refused before) are a run of their own
//
// The old state goes with its last version, as soon as no generation holds one.
//
// Code that fills any state must not keep the hub rebuilding. All modules share one state, so which of them fills it is not
// known for sure; these are the rules:
//
//   - a text in whose code the state became full twice within a minute is banned: it is not run until the file changes. The
//     others serve without it.
//   - if the new state is full before all modules are loaded, the file that added most to it is banned at once, and another
//     state is tried.
//
// Invariants:
//   - `former` is set from the beginning of a rebuild's stage to its commit, in one turn of the loop.
//   - each attempt but the last bans one more text, so there is a last one.

#include "base/time.h"
#include "bind/bind_int.h"
#include "bind/modules_int.h"

static const uint64_t calm_ns =
    60ull * 1000000000; // a death that long after the last one does not count as the second

// ---- whose fault ----------------------------------------------------------------------------

static void keep_text(struct files__text **at, struct files__text *t)
{
    files__text_ref(t);
    files__text_unref(*at);
    *at = t;
}

/// The new state is full already: ban the text that added most to it. False: there is none left to ban.
static bool ban_largest(struct modules *ms)
{
    struct version *largest = NULL;
    vec_foreach (it, &ms->space->staged) {
        bool banned = files__text_same((*it)->text, (*it)->module->banned);
        if (!banned && (largest == NULL || (*it)->grew > largest->grew)) {
            largest = *it;
        }
    }
    if (largest == NULL) {
        return false;
    }
    struct module *m = modules__get(ms->former, str_of(largest->module->name));
    keep_text(&m->banned, largest->text); // the next attempt adopts it
    return true;
}

// ---- the new state --------------------------------------------------------------------------

/// Replace the former space by a new one and load everything there.
static void attempt(struct modules *ms, struct gen_stage *s, const struct json *kept)
{
    struct space *sp = ms->space = space__open(ms);
    for (const struct module *old = ms->former->all; old != NULL; old = old->next) {
        struct module *m =
            modules__get(sp, str_of(old->name)); // all that is known but its versions
        m->wanted = old->wanted;
        m->attempted = old->attempted;
        m->named = old->named;
        m->struck_ns = old->struck_ns;
        keep_text(&m->struck, old->struck);
        keep_text(&m->banned, old->banned);
        m->installed = old->installed != NULL ? xstrdup(old->installed) : NULL;
        vec_foreach (want, &old->wants) {
            list__add(&m->wants, modules__get(sp, str_of((*want)->name)));
        }
        vec_foreach (late, &old->late) {
            list__add(&m->late, modules__get(sp, str_of((*late)->name)));
        }
        m->mark = old->live != NULL ? MARK_STAGE : MARK_NONE;
    }
    stage__expand_order(ms);
    state_restore(sp->state, kept);
    stage__begin(sp, s);
    module_list order = graph__order(ms, MARK_STAGE);
    vec_foreach (it, &order) {
        if ((*it)->staged == NULL) {
            load__stage(*it, rebuild__text(*it));
        }
    }
    vec_fini(&order);
}

// ---- report ------------------------------------------------------------------------------------

/// Report the rebuild with the module in whose code the state became full, while that text serves or is refused; if it was
/// in no module's code, as a warning of the hub until the next run.
static void say_rebuilt(struct modules *ms, struct gen_stage *s, const struct buf *lost)
{
    const struct module *guilty = ms->former->guilty;
    const char *name = guilty != NULL ? guilty->unit_name : "no module";
    struct version *v = NULL;
    vec_foreach (it, &ms->space->staged) {
        v = guilty != NULL && strcmp((*it)->module->name, guilty->name) == 0 ? *it : v;
    }
    char *text = xasprintf("the Lua state was full in code of '%s' and was made anew: modules were "
                           "loaded again as they served, with the plain data of hub.state%s%s",
                           name, lost->n != 0 ? "; lost: " : "", buf_z(lost));
    struct gen_diag d = {.code = DIAG_MEMORY_LIMIT, .source = "hub", .message = text};
    if (v != NULL) {
        bind__note(v->owner, d.code, NULL, 0, text);
    } else if (guilty != NULL && modules__get(ms->space, str_of(guilty->name))->refusal.message) {
        gen_stage_note(s, name, &d);
    } else {
        gen_warn(ms->engine, &d);
        ms->warned_full = true;
    }
    free(text);
}

void rebuild__forget(struct modules *ms)
{
    if (ms->warned_full) {
        gen_unwarn(ms->engine, DIAG_MEMORY_LIMIT, NULL);
        ms->warned_full = false;
    }
}

// ---- inside the module system ---------------------------------------------------------------

bool rebuild__is_due(const struct modules *ms)
{
    return vm_get_stats(ms->space->vm).dead;
}

struct files__text *rebuild__text(const struct module *m)
{
    const struct modules *ms = m->space->ms;
    const struct module *old =
        ms->former != NULL ? map_get(&ms->former->modules, str_of(m->name)) : NULL;
    return old != NULL && old->live != NULL ? old->live->text : NULL;
}

void rebuild__run(struct modules *ms, struct gen_stage *s)
{
    struct arena a = {0};
    struct buf lost = {.max = SIZE_MAX};
    rebuild__forget(ms);
    assert(ms->former == NULL);
    ms->former = ms->space;
    size_t max = (size_t)ms->bind->limits.memory_mb << 19; // half of it
    const struct json *kept = state_save(ms->former->state, &a, max, &lost);
    attempt(ms, s, kept);
    while (rebuild__is_due(ms) && ban_largest(ms)) {
        stage__drop(ms->space);
        space__retire(ms->space); // its versions go when the run has been staged
        attempt(ms, s, kept);
    }
    stage__end(ms->space);
    say_rebuilt(ms, s, &lost);
    buf_fini(&lost);
    arena_fini(&a);
}

void rebuild__commit(struct modules *ms)
{
    struct space *former = ms->former;
    ms->former = NULL;
    vm_kill(former->vm);
    space__retire(former);
    if (graph__is_stale(ms)) {
        gen_request(ms->engine, &(struct gen_request){.trigger = "memory"}, NULL, NULL);
    }
}

void rebuild__on_death(void *arg, struct vm_owner *owner)
{
    struct space *sp = arg;
    struct modules *ms = sp->ms;
    if (sp != ms->space || ms->former != NULL) {
        return; // of a dry run, or of a rebuild, which checks for itself
    }
    struct bind_owner *o = bind_owner_find(ms->bind, owner);
    struct version *v = o != NULL ? inside__version(o->unit) : NULL;
    if (v != NULL) {
        struct module *m = sp->guilty = v->module;
        uint64_t now = time_mono_ns();
        if (files__text_same(m->struck, v->text) && now - m->struck_ns < calm_ns) {
            keep_text(&m->banned, v->text);
        }
        keep_text(&m->struck, v->text);
        m->struck_ns = now;
    }
    gen_request(ms->engine, &(struct gen_request){.trigger = "memory"}, NULL, NULL);
}
