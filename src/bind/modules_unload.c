// Which modules are unloaded: those whose file is gone, and those that no module requires any more.
//
//     load order, asked for by name, protected ──> what they require ──> and so on: these stay
//                                                                       all others are unloaded
//
// The requires after the run count: those of the new version of a module that is replaced; those of the serving version, and
// of the attempt that failed, of a module whose new version is not taken. What a new version requires later, while it runs,
// is not known yet, so the late requires of a module count until that module is unloaded.
//
// An unloaded module leaves like a plugin that is removed: its registrations end at commit, then `_before_unload` is called.
// A module whose file is gone is unloaded even if others require it; those fail to load, their old versions continue to
// serve, and the report says so.

#include "bind/modules_int.h"

/// Did the run under way find that its file is gone?
static bool is_gone(const struct module *m)
{
    return m->mark == MARK_STAGE && files__find(&m->space->ms->files, str_of(m->name)) == NULL;
}

static void reach(const struct space *sp, struct module *m);

static void reach_list(const struct space *sp, const module_list *list)
{
    vec_foreach (m, list) {
        reach(sp, (*m)->twin);
    }
}

/// Mark `m`, a module of the hub's own space, as one that stays, and what it depends on after the run in `sp`.
static void reach(const struct space *sp, struct module *m)
{
    if (m->reached) {
        return;
    }
    m->reached = true;
    const struct module *here = sp == m->space ? m : map_get(&sp->modules, str_of(m->name));
    const struct version *fresh = here != NULL ? here->staged : NULL;
    if (fresh != NULL) {
        reach_list(sp, &fresh->deps);
    }
    if (fresh == NULL || fresh->thrown) {
        reach_list(sp, &m->wants);
    }
    if (m->live != NULL && (fresh == NULL || fresh->thrown) && !is_gone(m)) {
        reach_list(sp, &m->live->deps);
    }
    if (!is_gone(m)) {
        reach_list(sp, &m->late);
    }
}

void unload__judge(struct space *sp)
{
    for (struct module *m = sp->ms->space->all; m != NULL; m = m->next) {
        m->reached = false;
    }
    for (struct module *m = sp->ms->space->all; m != NULL; m = m->next) {
        if (m->wanted || m->named || modules__is_protected(m)) {
            reach(sp, m);
        }
    }
    vec_foreach (it, &sp->staged) {
        (*it)->unwanted = !(*it)->module->twin->reached;
        (*it)->thrown = (*it)->thrown || (*it)->unwanted;
    }
}

void unload__say(struct space *sp, struct gen_stage *s)
{
    for (struct module *m = sp->ms->space->all; m != NULL; m = m->next) {
        // a guest has no unit of its own: it goes with its host
        m->leaving = m->live != NULL && m->live->host == NULL && !modules__is_protected(m) &&
                     (!m->reached || is_gone(m));
        if (m->leaving) {
            gen_stage_remove(s, m->unit_name, GEN_REMOVE);
            installs__remove(s, m->live);
            past__say_held(s, m);
        }
    }
}

void unload__commit(struct modules *ms)
{
    for (struct module *m = ms->space->all; m != NULL; m = m->next) {
        if (!m->leaving) {
            continue;
        }
        m->live = NULL; // its unit owns it until it is released
        m->leaving = m->kept_back = false;
        m->attempted = m->named; // its file may come back
        m->late.n = m->wants.n = 0;
        refs_drop(m->space->vm, m->forward);
        m->forward = 0;
        installs__hand_over(m, NULL);
    }
}
