// What a version needs before it can be staged: a process that has loaded it, beside the one that serves.
//
//     decided: ACT_LOAD ── runner->start ──> trial ┄┄ ready ──> a run that waits continues, or
//                                                              one more run is asked for ── staged
//
// A requested run waits for all of its trials. A run of the watcher commits what is ready: a slow
// plugin is left out of it, and asks for a run of its own when it is ready. A file that is saved again meanwhile
// gets a new trial; the old one goes with its process.
//
// Invariants:
//   - a trial belongs to its plugin until trials__take(), then to the unit that is staged.
//   - a plugin in whose runner start() is NULL has none.

#include <assert.h>

#include "plugin/plugins_int.h"

enum {
    START_MS = 3000, // a hub that comes up waits no longer: its clients do not
    WAIT_MS = 20000, // longer than a load may take
};

static bool is_of(const struct loaded *v, const struct plugin *p, const struct content *c)
{
    return v != NULL && v->mark == p->mark && strcmp(v->content->tree.hash, c->tree.hash) == 0;
}

static void drop(struct loaded **at)
{
    struct loaded *v = *at;
    *at = NULL;
    if (v != NULL) {
        loaded__free(v);
    }
}

void trials__drop(struct plugin *p)
{
    for (size_t i = 0; i < ARRAY_LEN(p->trials); i++) {
        drop(&p->trials[i]);
    }
}

static bool is_ready(const struct plugin *p)
{
    bool ready = true;
    for (size_t i = 0; i < ARRAY_LEN(p->trials); i++) {
        ready = ready && (p->trials[i] == NULL || p->trials[i]->ready);
    }
    return ready;
}

static bool all_ready(const struct plugins *ps)
{
    bool ready = true;
    for (size_t i = 0; i < ps->run.n; i++) {
        ready = ready && (ps->run.p[i]->act != ACT_LOAD || is_ready(ps->run.p[i]));
    }
    return ready;
}

static void on_ready(void *arg)
{
    struct loaded *v = arg;
    struct plugins *ps = v->plugin->owner;
    assert(!v->ready);
    v->ready = true;
    if (!ps->awaiting) {
        plugins__ask(ps, "watch");
    } else if (all_ready(ps)) {
        ps->awaiting = false;
        timer_stop(&ps->patience);
        plugins__prepared(ps);
    }
}

/// Have a trial of `c` (NULL: none) at `at`. What is wrong with its options is told when it is staged.
static void try_content(struct plugin *p, struct loaded **at, struct content *c)
{
    bool server = c != NULL && c->shape.server != NULL;
    const struct plugin_runner *r = server ? p->owner->opts.runners[c->shape.lang] : NULL;
    bool starts = r != NULL && r->start != NULL;
    struct gen_diag fault = {0};
    if (starts && is_of(*at, p, c)) {
        return;
    }
    drop(at);
    struct loaded *v = starts ? loaded__new(p, c, &fault) : NULL;
    gen_diag_fini(&fault);
    if (v != NULL) {
        *at = v;
        v->run = r->start(r->arg, &v->code, on_ready, v);
    }
}

/// Leave the plugins that are not ready to a later run.
static void leave_out(struct plugins *ps)
{
    vec_foreach (it, &ps->run) {
        struct plugin *p = *it;
        if (p->act == ACT_LOAD && !is_ready(p)) {
            p->act = ACT_NOTHING;
            p->looked = p->owed = true;
        }
    }
}

static void on_patience(void *arg)
{
    struct plugins *ps = arg;
    ps->awaiting = false;
    leave_out(ps);
    plugins__prepared(ps);
}

bool trials__begin(struct plugins *ps)
{
    assert(!ps->awaiting);
    vec_foreach (it, &ps->run) {
        struct plugin *p = *it;
        bool loads = p->act == ACT_LOAD;
        if (loads || !p->looked) { // the others have no part in this run
            try_content(p, &p->trials[0], loads ? p->want : NULL);
            try_content(p, &p->trials[1], loads ? plugin__back(p) : NULL);
        }
    }
    ps->awaiting = ps->wait_all && !all_ready(ps);
    if (ps->awaiting) {
        timer_init(&ps->patience, ps->opts.hub->loop, on_patience, ps);
        timer_start(&ps->patience, ps->starting ? START_MS : WAIT_MS);
    } else {
        leave_out(ps);
    }
    return !ps->awaiting;
}

struct loaded *trials__take(struct plugin *p, const struct content *c)
{
    for (size_t i = 0; i < ARRAY_LEN(p->trials); i++) {
        struct loaded *v = p->trials[i];
        if (v != NULL && v->ready && is_of(v, p, c)) {
            p->trials[i] = NULL;
            return v;
        }
    }
    return NULL;
}
