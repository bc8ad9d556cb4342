// Plugins as a source of the transaction engine.
//
//     watch, reload, trust, settings ──> run: look (worker) ──> decide ──> stage, commit (the engine's turn)
//                                             │                  └ kept versions are fetched (worker)
//                                             └ what is in the roots and at configured places
//
// Five parts, each in its file: look.c knows what is on disk, decide.c what is to serve, trials.c starts what
// takes time, plugins_stage.c loads it, past.c remembers it. This file joins them, and lists the plugins.
//
// Invariants:
//   - between src_prepare() and gen_prepared() one look or fetch is under way, or web sides are
//     compiled, or trials are waited for.
//   - nothing is decided before what was kept (state/hub.json) is known: a held version must not be
//     overtaken by its file at start.

#include "plugin/plugins.h"

#include <assert.h>
#include <stdlib.h>

#include "base/path.h"
#include "base/slug.h"
#include "config/config.h"
#include "config/home.h"
#include "plugin/plugins_int.h"
#include "store/choices.h"

struct plugin *plugins__plug(const struct plugins *ps, const char *unit)
{
    return map_get(&ps->units, str_of(unit));
}

void plugin__free(struct plugin *p)
{
    trials__drop(p);
    gen_diag_fini(&p->verdict);
    gen_diag_fini(&p->said);
    gen_diag_fini(&p->failure);
    plugin_inputs_fini(&p->inputs);
    arena_fini(&p->arena);
    free(p->unit);
    free(p);
}

void plugins__ask(struct plugins *ps, const char *trigger)
{
    if (!ps->stopped) {
        gen_request(ps->opts.engine, &(struct gen_request){.trigger = trigger}, NULL, NULL);
    }
}

// ---- preparing a run ----------------------------------------------------------------------------

void plugins__end_run(struct plugins *ps)
{
    vec_foreach (c, &ps->fetched) {
        content_unref(*c);
    }
    ps->fetched.n = 0;
    vec_foreach (p, &ps->run) {
        (*p)->want = (*p)->back = NULL;
    }
    ps->run.n = 0;
    if (ps->rewatch) {
        ps->rewatch = false;
        look__watch(ps);
    }
}

void plugins__prepared(struct plugins *ps)
{
    bool anything = false;
    assert(ps->preparing && !ps->awaiting);
    ps->preparing = false;
    vec_foreach (p, &ps->run) {
        anything = anything || (!ps->stopped && (*p)->act != ACT_NOTHING);
    }
    if (!anything) {
        plugins__end_run(ps);
    }
    gen_prepared(ps->source, anything);
}

void plugins__decide(struct plugins *ps)
{
    if (ps->stopped || (decide__all(ps) && !compile__begin(ps) && trials__begin(ps))) {
        plugins__prepared(ps);
    }
}

void plugins__compiled(struct plugins *ps)
{
    if (ps->stopped || trials__begin(ps)) {
        plugins__prepared(ps);
    }
}

static void begin(struct plugins *ps)
{
    ps->asked_kept = false;
    plugins__end_run(ps);
    look__begin(ps);
}

void plugins__remembered(struct plugins *ps)
{
    assert(!ps->remembered);
    ps->remembered = true;
    if (ps->number != 0) {
        gen_set_number(ps->opts.engine, ps->number);
    }
    vec_foreach (w, &ps->waiting) {
        w->cb(w->arg);
    }
    ps->waiting.n = 0;
    if (ps->preparing) {
        begin(ps);
    }
}

static void src_prepare(void *arg, struct gen_source *src, const struct gen_request *req)
{
    struct plugins *ps = arg;
    if (ps->stopped) {
        gen_prepared(src, false);
        return;
    }
    assert(!ps->preparing);
    vec_fini_each(&ps->names, free);
    for (size_t i = 0; i < req->n_names; i++) {
        vec_push(&ps->names, str_dup(req->names[i]));
    }
    ps->force = req->force;
    ps->watch_run = strcmp(req->trigger, "watch") == 0;
    ps->wait_all = req->wait_all || req->dry_run;
    ps->starting = strcmp(req->trigger, "start") == 0;
    ps->preparing = true;
    if (ps->remembered) {
        begin(ps);
    }
}

// ---- lifecycle ----------------------------------------------------------------------------------

/// A version without a server side has nothing to be told.
static void src_leave(void *arg, struct gen_unit *u, enum gen_reason why,
                      struct gen_life_call *call)
{
    const struct loaded *v = u->data;
    (void)arg;
    if (v->run != NULL) {
        v->run->runner->leave(v->run, why, call);
    } else {
        gen_life_done(call, NULL);
    }
}

static void src_enter(void *arg, struct gen_unit *u, enum gen_reason why,
                      struct gen_life_call *call)
{
    const struct loaded *v = u->data;
    (void)arg;
    if (v->run != NULL) {
        v->run->runner->enter(v->run, why, call);
    } else {
        gen_life_done(call, NULL);
    }
}

static void src_release(void *arg, struct gen_unit *u)
{
    (void)arg;
    loaded__free(u->data);
}

static const struct gen_source_ops source_ops = {
    .name = "plugins",
    .prepare = src_prepare,
    .stage = stage__plugins,
    .commit = stage__plugins_commit,
    .abort = stage__plugins_abort,
    .leave = src_leave,
    .enter = src_enter,
    .release = src_release,
};

// ---- projects -----------------------------------------------------------------------------------

struct project *plugins__project(const struct plugins *ps, const char *root)
{
    vec_foreach (pr, &ps->projects) {
        if (strcmp(pr->place.root, root) == 0) {
            return pr;
        }
    }
    return NULL;
}

static void project_fini(struct project *pr)
{
    trust_place_fini(&pr->place);
    free(pr->slug);
}

/// Open the project of `place`, which is taken over, unless it is open; true when it was not.
static bool project_open(struct plugins *ps, struct trust_place *place)
{
    assert(place->root != NULL);
    if (plugins__project(ps, place->root) != NULL) {
        trust_place_fini(place);
        return false;
    }
    char slug[SLUG_TEXT];
    slug_of(place->root, slug);
    vec_push(&ps->projects,
             ((struct project){.place = *place, .slug = xstrdup(slug), .opening = true}));
    look__roots(ps);
    return true;
}

/// Close those in which no session, run or shell works any more.
static void projects_close_empty(struct plugins *ps)
{
    size_t before = ps->projects.n;
    for (size_t i = 0; i < ps->projects.n; i++) {
        struct project *pr = &ps->projects.p[i];
        if (!stays_has(&ps->stays, pr->place.root)) {
            project_fini(pr);
            vec_remove(&ps->projects, i);
            i--;
        }
    }
    if (ps->projects.n != before) {
        look__roots(ps);
        ps->all_dirty = true;
        plugins__ask(ps, "project");
    }
}

/// A session, run or shell begins in a directory; a worker finds out which project that is.
struct visit {
    struct plugins *ps;
    char *dir, *home, *real;
    struct trust_place place;
    bool found; // it is a project
    char *root; // of the project that is waited for; NULL: none is
    plugins_entered *cb;
    void *arg;
};

static void visit_work(void *arg)
{
    struct visit *v = arg;
    v->real = realpath(v->dir, NULL);
    v->found = v->real != NULL && trust_place_of(&v->place, v->home, v->real, NULL) == 0;
}

static void visit_end(struct visit *v)
{
    if (v->cb != NULL) {
        v->cb(v->arg, v->ps->stopped ? NULL : v->real);
    }
    free(v->dir);
    free(v->home);
    free(v->real);
    free(v->root);
    free(v);
}

static void on_project_open(const struct gen_report *r, void *arg)
{
    struct visit *v = arg;
    struct project *pr = plugins__project(v->ps, v->root);
    (void)r;
    if (pr != NULL) {
        pr->opening = false;
    }
    visit_end(v);
}

static void visit_done(void *arg)
{
    struct visit *v = arg;
    struct plugins *ps = v->ps;
    bool counts = v->found && !ps->stopped &&
                  (trust_knows(ps->opts.hub->trust, &v->place) ||
                   plugins__project(ps, v->place.root) != NULL);
    assert(!v->found || v->real != NULL);
    if (v->found && !counts) {
        trust_place_fini(&v->place);
    }
    if (v->real != NULL && !ps->stopped) {
        v->root = counts ? xstrdup(v->place.root) : NULL;
        stays_enter(&ps->stays, v->real, v->root);
        bool opened = counts && project_open(ps, &v->place);
        ps->all_dirty = ps->all_dirty || opened;
        projects_close_empty(ps);
    }
    // a visit to a project that is being opened waits too: its plugins take part in the first turn
    if (v->root == NULL || !plugins__project(ps, v->root)->opening) {
        visit_end(v);
        return;
    }
    gen_request(ps->opts.engine, &(struct gen_request){.trigger = "project", .wait_all = true},
                on_project_open, v);
}

void plugins_enter_dir(struct plugins *ps, const char *dir, plugins_entered *cb, void *arg)
{
    struct visit *v = xcalloc(1, sizeof *v);
    *v = (struct visit){.ps = ps,
                        .dir = xstrdup(dir),
                        .home = xstrdup(ps->opts.hub->home->dir),
                        .cb = cb,
                        .arg = arg};
    work_submit(ps->lane, 0, visit_work, visit_done, v);
}

void plugins_leave_dir(struct plugins *ps, const char *real_dir)
{
    stays_leave(&ps->stays, real_dir);
    if (!ps->stopped) {
        projects_close_empty(ps);
    }
}

bool plugins_reaches(const struct plugins *ps, struct str unit, const char *dir)
{
    const struct plugin *p = map_get(&ps->units, unit);
    if (p == NULL || p->serving == NULL) {
        return p == NULL; // not a plugin: improvements and modules have rules of their own
    }
    const struct plugin_code *code = &p->serving->code;
    if (code->project != NULL) {
        return look__is_beneath(dir, code->project);
    }
    vec_foreach (q, &ps->plugins) { // one of a project around `dir` may have the name there
        const struct loaded *v = (*q)->serving;
        if (v != NULL && v->code.project != NULL && look__is_beneath(dir, v->code.project) &&
            strcmp(v->code.name, code->name) == 0) {
            return false;
        }
    }
    return true;
}

// ---- life ---------------------------------------------------------------------------------------

/// A number over the settings that say which plugins there are and how they are watched.
static uint64_t config_mark(const struct config *c)
{
    static const uint64_t seed[2] = {5, 6};
    const struct config_entry *e;
    struct buf b = {.max = SIZE_MAX};
    for (size_t at = 0; (e = config_next(c, &at)) != NULL;) {
        struct str key = str_of(e->key);
        if (str_starts(key, "plugins.") || str_starts(key, "watch.") || str_eqz(key, "profile")) {
            buf_addf(&b, "%s %s %u ", e->key, e->path != NULL ? e->path : "", e->line);
            json_write(&b, e->value, 0);
        }
    }
    uint64_t mark = map_hash_seeded(seed, buf_str(&b));
    buf_fini(&b);
    return mark;
}

static void on_visited_again(void *arg, const char *real_dir)
{
    if (real_dir != NULL) {
        plugins_leave_dir(arg, real_dir);
    }
}

/// A project in use may be trusted from now on: every visit begins once more.
static void on_trust(const struct trust *t, void *arg)
{
    struct plugins *ps = arg;
    struct str dir;
    (void)t;
    ps->all_dirty = true;
    plugins__ask(ps, "trust");
    for (size_t at = 0; (dir = stays_next(&ps->stays, &at)).p != NULL;) {
        char *z = str_dup(dir);
        plugins_enter_dir(ps, z, on_visited_again, ps);
        free(z);
    }
}

bool plugins_wanted(const struct choices *chosen, const struct config *config)
{
    const struct json *choice = choices_get(chosen, STR("features.plugins"));
    bool set = config_bool(config, "features.plugins");
    return config_is_policy(config, "features.plugins") ? set : json_bool(choice, set);
}

static void on_settings(void *arg)
{
    struct plugins *ps = arg;
    uint64_t mark = config_mark(ps->opts.hub->config->now);
    if (mark != ps->config_mark) {
        ps->config_mark = mark;
        ps->all_dirty = true;
        look__roots(ps);
        plugins__ask(ps, "config");
    }
}

struct plugins *plugins_open(const struct plugins_opts *o)
{
    struct plugins *ps = xcalloc(1, sizeof *ps);
    struct trust_place place = {0};
    ps->opts = *o;
    ps->on = !o->off;
    ps->all_dirty = true;
    ps->config_mark = config_mark(o->hub->config->now);
    ps->front = front_open(o->hub->loop);
    ps->lane = lane_open(o->hub->loop, "plugins", 1);
    ps->keeper = lane_open(o->hub->loop, "versions", 1);
    ps->versions = path_join(o->hub->home->state, "versions");
    stays_init(&ps->stays);
    ps->source = gen_source_add(o->engine, &source_ops, ps);
    gen_on_commit(o->engine, past__committed, ps);
    look__roots(ps);
    if (o->repo != NULL && trust_place_of(&place, o->hub->home->dir, o->repo, NULL) == 0) {
        stays_enter(&ps->stays, place.root, place.root);
        project_open(ps, &place);
    }
    trust_listen(o->hub->trust, on_trust, ps);
    config_listen(o->hub->config, on_settings, ps);
    past__load(ps);
    return ps;
}

void plugins_stop(struct plugins *ps)
{
    if (ps->stopped) {
        return;
    }
    ps->stopped = true;
    front_close(ps->front); // what is being compiled fails, and the run that waits for it ends
    ps->front = NULL;
    timer_stop(&ps->braked);
    timer_stop(&ps->prune_timer);
    trust_unlisten(ps->opts.hub->trust, on_trust, ps);
    config_unlisten(ps->opts.hub->config, on_settings, ps);
    for (size_t i = 0; i < ps->watches.n; i++) {
        watch_close(ps->watches.p[i]);
        ps->watches.p[i] = NULL;
    }
    vec_foreach (p, &ps->plugins) {
        trials__drop(*p);
    }
    timer_stop(&ps->patience);
    if (ps->awaiting) {
        ps->awaiting = false;
        plugins__prepared(ps);
    }
    if (ps->remembered) {
        past__save(ps);
    }
}

static void nothing(void *arg)
{
    (void)arg;
}

/// After the last job of the lane: no callback uses `arg` any more.
static void free_now(void *arg)
{
    struct plugins *ps = arg;
    plugins__end_run(ps);
    vec_fini_each(&ps->plugins, plugin__free);
    vec_foreach (pr, &ps->projects) {
        project_fini(pr);
    }
    stays_fini(&ps->stays);
    vec_fini_each(&ps->warned, free);
    vec_fini_each(&ps->unloaded, free);
    places_fini(&ps->installed);
    vec_fini_each(&ps->names, free);
    look__free(ps);
    past__free(ps);
    vec_fini(&ps->run);
    map_fini(&ps->units);
    vec_fini(&ps->projects);
    vec_fini(&ps->fetched);
    free(ps->versions);
    free(ps);
}

static void keeper_done(void *arg)
{
    struct plugins *ps = arg;
    struct lane *lane = ps->lane;
    work_submit(lane, 0, nothing, free_now, ps);
    lane_close(lane);
}

void plugins_free(struct plugins *ps)
{
    if (ps != NULL) {
        struct lane *keeper = ps->keeper;
        work_submit(keeper, 0, nothing, keeper_done, ps);
        lane_close(keeper);
    }
}

void plugins_project_changed(struct plugins *ps)
{
    ps->all_dirty = true;
    look__roots(ps); // the profile may be another one
    plugins__ask(ps, "config");
}

void plugins_switch(struct plugins *ps, bool on)
{
    if (ps->on != on) {
        ps->on = on;
        ps->all_dirty = true;
        plugins__ask(ps, "feature");
    }
}

bool plugins_is_on(const struct plugins *ps)
{
    return ps->on;
}

// ---- installing while the hub runs --------------------------------------------------------------

void plugins_install(struct plugins *ps, const char *owner, const struct plugin_install *list,
                     size_t n)
{
    assert(owner != NULL);
    for (size_t i = ps->installed.list.n; i-- > 0;) {
        struct plugin_place *p = &ps->installed.list.p[i];
        if (strcmp(p->said_path, owner) == 0) {
            place_fini(p);
            vec_remove(&ps->installed.list, i);
        }
    }
    for (size_t i = 0; i < n; i++) {
        struct plugin_place p = {.path = path_clean(list[i].path),
                                 .layer = LAYER_CONFIG,
                                 .source = "lua",
                                 .order = (int)ps->installed.list.n,
                                 .hot = list[i].hot,
                                 .enabled = true,
                                 .options = json_clone(&ps->installed.arena, list[i].options),
                                 .said_path = xstrdup(owner),
                                 .called = list[i].name != NULL ? xstrdup(list[i].name) : NULL};
        vec_push(&ps->installed.list, p);
    }
    ps->all_dirty = true;
}

int plugins_unload(struct plugins *ps, struct str name, struct err *e)
{
    struct plugin_row row;
    if (!plugins_find(ps, name, &row)) {
        return err_set(e, ERR_NOT_FOUND, "there is no plugin '" STR_FMT "'", STR_ARG(name));
    }
    if (row.required) {
        return err_set(e, ERR_DENIED, "plugin '%s' is required", row.name);
    }
    plugins_load(ps, name);
    vec_push(&ps->unloaded, str_dup(name));
    return 0;
}

bool plugins_forget_hold(struct plugins *ps, struct str name)
{
    char *unit = str_dup(name);
    bool held = past__hold(ps, unit) != NULL;
    if (held) {
        past_unhold(ps, unit);
    }
    free(unit);
    return held;
}

void plugins_load(struct plugins *ps, struct str name)
{
    for (size_t i = ps->unloaded.n; i-- > 0;) {
        if (str_eqz(name, ps->unloaded.p[i])) {
            free(ps->unloaded.p[i]);
            vec_remove(&ps->unloaded, i);
        }
    }
}

// ---- what there is ------------------------------------------------------------------------------

size_t plugins_count(const struct plugins *ps)
{
    return ps->plugins.n;
}

static struct plugin_row row_of(const struct plugin *p)
{
    const struct loaded *v = p->serving;
    const struct content *there = p->found != NULL ? p->found->content : NULL;
    const struct content *c = v != NULL ? v->content : there;
    struct plugin_origin o = plugin__origin(p);
    enum gen_state state = p->state;
    if (state == GEN_LOADED && v == NULL) { // it is about to be loaded, and stands as before
        state = p->said_state != GEN_LOADED ? p->said_state : GEN_REMOVED;
    }
    struct plugin_row r = {
        .name = p->unit,
        .path = o.path,
        .source = o.source,
        .layer = o.layer,
        .project = o.project,
        .host = v != NULL ? v->unit->host : "",
        .state = state,
        .enabled = p->entry != NULL ? p->entry->enabled : !plugin__is_chosen_off(p),
        .required = p->entry != NULL && p->entry->place->required,
        .unit = v != NULL ? v->unit : NULL,
        .shape = c != NULL && c->sound ? &c->shape : NULL,
        .tree = c != NULL ? &c->tree : NULL,
        .options = v != NULL ? v->code.options : o.options,
        .hash = v != NULL ? v->content->tree.hash : NULL,
        .pending_error = state == GEN_FAILED ? p->verdict.message : NULL,
        .metadata = v != NULL && v->run != NULL ? v->run->metadata : NULL,
        .run = v != NULL ? v->run : NULL,
    };
    if (there != NULL && (v == NULL || strcmp(there->tree.hash, r.hash) != 0)) {
        r.pending_hash = there->tree.hash;
        r.pending_at = p->found->seen_at;
    }
    if (p->entry != NULL) {
        r.shadows = p->entry->shadows.p;
        r.n_shadows = p->entry->shadows.n;
    }
    return r;
}

size_t plugin_row_memory(const struct plugin_row *r)
{
    return r->run != NULL ? r->run->runner->memory(r->run) : 0;
}

struct plugin_row plugins_at(const struct plugins *ps, size_t i)
{
    assert(i < ps->plugins.n);
    return row_of(ps->plugins.p[i]);
}

bool plugins_find(const struct plugins *ps, struct str name, struct plugin_row *out)
{
    const struct plugin *p = map_get(&ps->units, name);
    if (p != NULL) {
        *out = row_of(p);
    }
    return p != NULL;
}
