// One run over the hub's modules: stage, judge, report; then commit or discard.
//
//     marked modules ──> run each ──> groups ──> a group with a failure is discarded whole
//                                                 │  hub.state as it was, old modules untouched
//                                                 └─ the others are put into the generation
//
//     commit: _before_reload of what leaves (it still sees its own table)
//             ──> old tables are emptied and forward to the new ones ──> the new ones serve
//
// Modules are in one group when a require connects them, now or in the serving versions, when one is a guest of the other,
// or when both changed the same key of hub.state. Taking half of a group would run old code on new dependencies. A module
// without a serving version has no old code: when it fails, it fails alone, with the modules that need it. So a broken
// user.init does not take down the libraries that it required at start.
//
// A dry run loads everything into a state of its own, which is discarded afterwards, and reports only what would change. It
// starts with an empty hub.state.

#include "bind/bind_int.h"
#include "bind/modules_int.h"

// ---- the load order -------------------------------------------------------------------------

void stage__expand_order(struct modules *ms)
{
    vec_foreach (m, &ms->order_list) {
        (*m)->wanted = false;
    }
    ms->order_list.n = 0;
    vec_foreach (pattern, &ms->patterns) {
        files__names names = {0};
        files__expand(&ms->files, str_of(*pattern), &names);
        if (names.n == 0 && files__is_name(str_of(*pattern))) {
            vec_push(&names, xstrdup(*pattern)); // it may come later
        }
        vec_foreach (name, &names) {
            struct module *m = modules__get(ms->space, str_of(*name));
            m->wanted = true;
            list__add(&ms->order_list, m);
            free(*name);
        }
        vec_fini(&names);
    }
}

/// The first run: hub.init says what is loaded, and in which order.
static void boot(struct modules *ms)
{
    struct module *m = modules__get(ms->space, STR("hub.init"));
    struct files__text *text = files__find(&ms->files, STR("hub.init"));
    ms->booted = true;
    m->wanted = true;
    if (text != NULL) {
        load__stage(m, text);
    }
    if (m->staged == NULL || m->staged->outcome != VERSION_LOADED) {
        vec_push(&ms->patterns, xstrdup("user.init"));
    } else {
        struct entry en = {0};
        lua_State *L = entry_begin(&en, ms->space->vm);
        refs_push(L, m->staged->value);
        for (lua_Integer i = 1; lua_istable(L, 1) && lua_rawgeti(L, 1, i) == LUA_TSTRING; i++) {
            vec_push(&ms->patterns, xstrdup(lua_tostring(L, -1)));
            lua_pop(L, 1);
        }
        entry_end(&en);
    }
    stage__expand_order(ms);
}

// ---- judge ----------------------------------------------------------------------------------

static bool is_served(const struct version *v)
{
    return v->module->twin->live != NULL;
}

static struct version *group_of(struct version *v)
{
    while (v->parent != v) {
        v->parent = v->parent->parent;
        v = v->parent;
    }
    return v;
}

/// Put both into one group, unless one of them failed and has no serving version: that one fails alone.
static void join(struct version *a, struct version *b)
{
    const struct version *both[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        if (both[i] == NULL || (both[i]->outcome == VERSION_FAILED && !is_served(both[i]))) {
            return;
        }
    }
    group_of(a)->parent = group_of(b);
}

static void judge(struct space *sp)
{
    vec_foreach (it, &sp->staged) {
        struct version *v = *it;
        const struct version *before = sp == sp->ms->space ? v->module->live : NULL;
        vec_foreach (dep, &v->deps) {
            join(v, (*dep)->staged);
        }
        for (size_t i = 0; before != NULL && i < before->deps.n; i++) {
            join(v, before->deps.p[i]->staged);
        }
        if (before != NULL && before->host != NULL) {
            join(v, before->host->module->staged);
        }
    }
    for (size_t i = 0; i + 1 < sp->edges.n; i += 2) {
        join(sp->edges.p[i], sp->edges.p[i + 1]);
    }
    vec_foreach (it, &sp->staged) {
        if ((*it)->outcome == VERSION_FAILED && is_served(*it)) {
            group_of(*it)->spoilt = true;
        }
    }
    vec_foreach (it, &sp->staged) {
        (*it)->thrown = (*it)->outcome == VERSION_FAILED || group_of(*it)->spoilt;
    }
}

// ---- report ------------------------------------------------------------------------------------

/// Did it load, or fail only because a module that it requires failed?
static bool is_blameless(const struct version *v)
{
    if (v->outcome != VERSION_FAILED) {
        return true;
    }
    if (v->blame == NULL || v->fault.code != DIAG_LOAD_FAILED) {
        return false;
    }
    char *told = xasprintf("module '%s' failed to load", v->blame->name);
    bool same = strstr(v->fault.message, told) != NULL;
    free(told);
    return same;
}

/// Is the run about this version? In a dry run others are loaded only because they are needed.
static bool is_concerned(const struct version *v)
{
    const struct module *m = v->module->twin;
    return m->mark == MARK_STAGE || m->live == NULL;
}

static void say_refused(struct gen_stage *s, struct module *m, const struct gen_diag *d)
{
    gen_stage_refuse(s, m->unit_name, GEN_FAILED, d);
    gen_diag_fini(&m->refusal);
    m->refusal = gen_diag_copy(d);
}

static void refuse(struct gen_stage *s, struct space *sp, struct version *v)
{
    struct module *m = v->module;
    if (!is_concerned(v) || v->unwanted) {
        return;
    }
    if (sp->ms->former != NULL) {
        gen_stage_remove(s, m->unit_name, GEN_REMOVE); // what served is dead
        installs__remove(s, installs__served(v));
    }
    if (!is_blameless(v)) {
        say_refused(s, m, &v->fault);
        return;
    }
    if (is_served(v) && files__text_same(v->text, m->twin->live->text)) {
        return; // its text has not changed: it continues to serve
    }
    const char *culprit = NULL; // the first of its group that failed by itself
    vec_foreach (it, &sp->staged) {
        if (culprit == NULL && !is_blameless(*it) &&
            (group_of(*it) == group_of(v) || v->blame == (*it)->module)) {
            culprit = (*it)->module->unit_name;
        }
    }
    if (culprit == NULL) {
        culprit = v->blame != NULL ? v->blame->unit_name : "a module";
    }
    char *text = xasprintf("not taken, because '%s' failed to load", culprit);
    struct gen_diag d = {
        .code = DIAG_LOAD_FAILED, .origin = "module", .path = v->text->path, .message = text};
    say_refused(s, m, &d);
    free(text);
}

/// A module that was looked at and not run.
static void say_touched(struct gen_stage *s, struct module *m, struct files__text *text)
{
    if (m->live != NULL && modules__is_protected(m) && !files__text_same(text, m->live->text)) {
        struct gen_diag d = {.code = DIAG_PROTECTED,
                             .origin = "module",
                             .path = text != NULL ? text->path : m->live->text->path,
                             .message = "a protected module is never reloaded",
                             .hint = "stop and start the hub"};
        gen_stage_refuse(s, m->unit_name, GEN_KEPT, &d);
        gen_stage_need(s, m->unit_name, GEN_HUB_RESTART, "a protected module changed");
    } else if (m->live == NULL || files__text_same(text, m->live->text)) {
        gen_stage_clear(s, m->unit_name);
        gen_diag_fini(&m->refusal);
        past__say_held(s, m);
    }
}

static bool is_on_disk(const struct version *v)
{
    const struct module *m = v->module;
    return files__text_same(v->text, files__find(&m->space->ms->files, str_of(m->name)));
}

static void put(struct gen_stage *s, struct version *v)
{
    struct module *m = v->module;
    if (!is_concerned(v)) {
        return;
    }
    if (!gen_stage_put(s, v->unit)) {
        v->thrown = true;
        return;
    }
    installs__put(s, v);
    if (is_on_disk(v)) {
        gen_diag_fini(&m->refusal);
        past__say_held(s, m);
    } else if (m->refusal.message != NULL) { // run again for the sake of what it requires
        gen_stage_stand(s, m->unit_name, GEN_FAILED, &m->refusal);
    }
}

// ---- remember -------------------------------------------------------------------------------

/// Remember what was looked at, so that it is not looked at again until it changes.
static void remember(struct modules *ms)
{
    vec_foreach (it, &ms->space->staged) {
        struct module *m = (*it)->module;
        m->mark = MARK_STAGE;
        if (!(*it)->unwanted && is_on_disk(*it)) {
            m->attempted = true;
            m->kept_back = (*it)->thrown && is_blameless(*it);
            m->wants.n = 0;
            for (size_t i = 0; (*it)->thrown && i < (*it)->deps.n; i++) {
                list__add(&m->wants, (*it)->deps.p[i]);
            }
        }
    }
    for (struct module *m = ms->space->all; m != NULL; m = m->next) {
        if (m->mark != MARK_NONE) {
            struct files__text *now = files__find(&ms->files, str_of(m->name));
            bool looked = ms->former == NULL || files__text_same(now, m->staged->text);
            files__text_unref(m->seen);
            m->seen = looked ? files__text_ref(now) : NULL;
        }
    }
}

/// Forget the versions that were discarded; they are freed with their units when stage() returns.
static void forget_thrown(struct space *sp)
{
    size_t kept = 0;
    for (size_t i = 0; i < sp->staged.n; i++) {
        struct version *v = sp->staged.p[i];
        v->module->staged = NULL;
        if (!v->thrown) {
            sp->staged.p[kept++] = v;
        }
    }
    sp->staged.n = kept;
    sp->edges.n = 0;
}

// ---- the run --------------------------------------------------------------------------------

void stage__begin(struct space *sp, struct gen_stage *s)
{
    assert(sp->stage == NULL && sp->staged.n == 0);
    sp->stage = s;
    state_begin(sp->state);
}

void stage__end(struct space *sp)
{
    struct modules *ms = sp->ms;
    assert(sp->stage != NULL && sp->loading.n == 0);
    judge(sp);
    unload__judge(sp);
    vec_foreach (it, &sp->staged) {
        if ((*it)->thrown) {
            refuse(sp->stage, sp, *it);
        }
    }
    vec_foreach (it, &sp->staged) {
        if (!(*it)->thrown) {
            put(sp->stage, *it);
        }
    }
    unload__say(sp, sp->stage);
    state_end(sp->state);
    if (sp == ms->space) {
        remember(ms);
    }
    sp->stage = NULL;
    forget_thrown(sp);
    graph__clear(ms);
}

void stage__drop(struct space *sp)
{
    vec_foreach (it, &sp->staged) {
        (*it)->thrown = true;
    }
    state_end(sp->state);
    sp->stage = NULL;
    forget_thrown(sp);
}

/// Is a changed and sound module discarded, which might be taken if all others stayed as they serve? Files that were
/// refused before are tried again with what depends on them, and fail again.
static bool is_held_up(struct space *sp)
{
    bool sound = false, others = false;
    judge(sp);
    vec_foreach (it, &sp->staged) {
        const struct module *m = (*it)->module->twin;
        bool serves = m->live != NULL && files__text_same((*it)->text, m->live->text);
        sound = sound || (m->changed && (*it)->thrown && is_blameless(*it));
        others = others || (!m->changed && !serves);
    }
    return sound && others;
}

/// Load what is marked. A dry run loads all that serves or would serve, into a state of its own.
static void attempt(struct modules *ms, struct space *sp, struct gen_stage *s)
{
    const struct gen_request *req = gen_stage_request(s);
    stage__begin(sp, s);
    if (!ms->booted && !req->dry_run) {
        boot(ms);
    }
    graph__mark(ms, req);
    for (struct module *m = ms->space->all; m != NULL; m = m->next) {
        if (m->mark == MARK_TOUCHED) {
            say_touched(s, m, files__find(&ms->files, str_of(m->name)));
        } else if (m->mark == MARK_NONE && m->live != NULL && req->dry_run) {
            m->mark = MARK_TOUCHED;
        }
    }
    module_list order = graph__order(ms, req->dry_run ? MARK_TOUCHED : MARK_STAGE);
    vec_foreach (it, &order) {
        struct module *here = req->dry_run ? modules__get(sp, str_of((*it)->name)) : *it;
        struct files__text *text = load__text(*it);
        if (here->staged == NULL && text != NULL) {
            load__stage(here, text);
        }
    }
    vec_fini(&order);
}

void stage__run(void *modules, struct gen_stage *s)
{
    struct modules *ms = modules;
    bool dry_run = gen_stage_request(s)->dry_run;
    if (rebuild__is_due(ms) && !dry_run) {
        rebuild__run(ms, s);
        return;
    }
    if (!dry_run) {
        rebuild__forget(ms);
        past__end_holds(ms, gen_stage_request(s));
    }
    ms->trial = dry_run ? space__open(ms) : NULL;
    struct space *sp = dry_run ? ms->trial : ms->space;
    attempt(ms, sp, s);
    if (is_held_up(sp)) {
        stage__drop(sp);
        graph__clear(ms);
        ms->alone = true;
        attempt(ms, sp, s);
    }
    stage__end(sp);
    ms->alone = false;
}

// ---- commit ---------------------------------------------------------------------------------

void stage__commit(void *modules)
{
    struct modules *ms = modules;
    struct space *sp = ms->space;
    for (size_t i = sp->staged.n; i-- > 0;) { // dependents first
        struct version *old = sp->staged.p[i]->module->live;
        if (old != NULL) {
            bind__call_life(old->owner, old->value, "_before_reload", DIAG_SHUTDOWN_FAILED,
                            DIAG_SHUTDOWN_TIMEOUT, &old->fault);
        }
    }
    vec_foreach (it, &sp->staged) {
        struct version *old = (*it)->module->live;
        if (old != NULL) {
            forward__replace(sp, (*it)->module, old->value, (*it)->value);
        }
        (*it)->module->live = *it;
        if (old != NULL && old->host != NULL) {
            version__free(old); // it has no unit of its own
        }
        installs__commit(*it);
        past__serves(*it);
    }
    unload__commit(ms);
    sp->staged.n = 0;
    if (ms->former != NULL) {
        rebuild__commit(ms);
    }
}

void stage__abort(void *modules)
{
    struct modules *ms = modules;
    struct space *trial = ms->trial;
    ms->trial = NULL;
    if (trial != NULL) {
        trial->staged.n = 0;
        space__retire(trial);
    }
}
