// One build and one watch for all guests in the same project with the same outer environment.
//
//     env_guest_new ── where is the project? (worker) ──┬── nowhere: the guest has what it brought
//                                                       └── place, new or shared ── coordinator
//     env_guest_ask ── first build over? ── has a file changed? (worker) ── answer
//
// Guests share a place only if their outer environments are equal, since the result depends on it: `${HOME}/bin`
// of one client is not that of another. Variables that belong to a shell itself (SHLVL, PWD) do not count.
//
// A place has one result; each guest has its own environment, made of what it brought and of that result,
// and is told the names of the variables that changed.
//
// A client may itself run in a shell that has the environment, and its user may have changed a variable
// there. What the first build would change of such an environment is therefore the user's, and stays. The
// price: what the project later no longer sets stays with that guest, since it brought it.
//
// Invariants:
//   - a place has at least one guest; a guest has no place while its project is looked for.
//   - asks are answered together, by the first of: a result, a failure, "nothing changed", or a timeout. For
//     the first build that is a little more than one build may take: a file that changes all the time
//     restarts it all the time, and a command must not wait without end.

#include "env/share.h"

#include <assert.h>

#include "base/path.h"
#include "env/vars.h"
#include "loop/timer.h"
#include "loop/work.h"

enum { PATIENCE_MS = 2000, KILL_MS = 5000 };

struct env_place {
    struct env_share *share;
    struct env_place *next;
    char *root;
    char **base; // of the guest that opened it
    struct env_coord *coord;
    bool settled; // the first build is over
    uint64_t generation;
    int code; // of the last build: 0, or why it failed
    vec(struct env_guest *) guests;
};

struct env_share {
    struct env_share_opts o;
    struct lane *lane;
    struct env_place *places;
};

struct guest_ask {
    env_guest_fn *done;
    void *arg;
};

struct env_finding {
    struct env_guest *guest; // NULL: it is gone
    char *dir;
    struct env_project project;
    int rc;
};

struct env_guest {
    struct env_share *share;
    void *arg;
    char *dir;
    char **base;
    struct env_finding *finding;
    struct env_place *place; // NULL: none
    char **environ;          // NULL: the base
    uint64_t applied;        // generation of the result in it
    uint64_t told;           // of the last failure that was said
    bool denied;             // and its reason was that the project is not trusted
    vec(char *) mine;        // variables that its user changed
    vec(struct guest_ask) asks;
    struct timer patience;
    unsigned held; // by those who answer it
    bool gone;     // freed: its memory goes when `held` is 0
};

// ---- environments ----------------------------------------------------------------------------

static bool is_own(const char *entry)
{
    struct str rest = str_of(entry);
    return !env_name_is_free(str_cut(&rest, '='));
}

/// The same but for what belongs to a shell itself; both as env_result_environ() makes them.
static bool is_alike(char *const *a, char *const *b)
{
    for (;; a++, b++) {
        while (*a != NULL && is_own(*a)) {
            a++;
        }
        while (*b != NULL && is_own(*b)) {
            b++;
        }
        if (*a == NULL || *b == NULL || strcmp(*a, *b) != 0) {
            return *a == *b;
        }
    }
}

static const char *find(char *const *vars, const char *name)
{
    return str_env((const char *const *)vars, name);
}

static const char *const *environ_of(const struct env_guest *g)
{
    return (const char *const *)(g->environ != NULL ? g->environ : g->base);
}

/// Does the guest come from a shell that has the environment of this project? A shell with `afloat hook` does
/// not name the project, so its working directory decides.
static bool comes_from_inside(const struct env_guest *g, const char *root)
{
    const char *project = find(g->base, "AFLOAT_PROJECT");
    const char *at = project != NULL ? project : find(g->base, "PWD");
    const char *rel = at != NULL ? path_below(root, at) : NULL;
    return find(g->base, "AFLOAT_ENV_GENERATION") != NULL && rel != NULL &&
           (rel[0] == '\0' || project == NULL);
}

static bool is_mine(const struct env_guest *g, const char *name)
{
    vec_foreach (it, &g->mine) {
        if (strcmp(*it, name) == 0) {
            return true;
        }
    }
    return false;
}

/// What the guest brought with the result on top, but for its user's own.
static char **make_environ(const struct env_guest *g, const struct env_result *r)
{
    struct env_result rest = *r;
    rest.set.p = xcalloc(r->set.n + 1, sizeof *rest.set.p);
    rest.unset.p = xcalloc(r->unset.n + 1, sizeof *rest.unset.p);
    rest.set.n = rest.unset.n = 0;
    vec_foreach (v, &r->set) {
        if (!is_mine(g, v->name)) {
            rest.set.p[rest.set.n++] = *v;
        }
    }
    vec_foreach (name, &r->unset) {
        if (!is_mine(g, *name)) {
            rest.unset.p[rest.unset.n++] = *name;
        }
    }
    char **vars = env_result_environ(&rest, (const char *const *)g->base);
    free(rest.set.p);
    free(rest.unset.p);
    return vars;
}

/// Names of `a` that are not in `b`, or, with `differ`, have another value there.
static const char **compare(const struct env_vars *a, const struct env_vars *b, bool differ)
{
    size_t n, kept = 0;
    const char **names = env_vars_names(a, &n);
    for (size_t i = 0; i < n; i++) {
        const char *there = env_vars_get(b, str_of(names[i]));
        bool counts = differ ? there != NULL && strcmp(there, env_vars_get(a, str_of(names[i])))
                             : there == NULL;
        if (counts) {
            names[kept++] = names[i];
        }
    }
    names[kept] = NULL;
    return names;
}

static void apply(struct env_guest *g, const struct env_result *r, const char *const *changed,
                  size_t n_changed)
{
    struct env_share *s = g->share;
    struct arena a = {0};
    struct env_vars before, now;
    if (g->applied == 0 && comes_from_inside(g, g->place->root)) {
        vec_foreach (v, &r->set) {
            if (find(g->base, v->name) != NULL) {
                vec_push(&g->mine, xstrdup(v->name));
            }
        }
        vec_foreach (name, &r->unset) {
            vec_push(&g->mine, xstrdup(*name));
        }
    }
    char **vars = make_environ(g, r);
    env_vars_init(&before, &a);
    env_vars_init(&now, &a);
    env_vars_add_environ(&before, environ_of(g));
    env_vars_add_environ(&now, (const char *const *)vars);
    free(g->environ);
    g->environ = vars;
    g->applied = r->generation;
    g->denied = false;
    struct env_applied m = {.project = g->place->root,
                            .generation = r->generation,
                            .duration_ms = r->duration_ms,
                            .changed = changed,
                            .n_changed = n_changed,
                            .added = compare(&now, &before, false),
                            .replaced = compare(&now, &before, true),
                            .removed = compare(&before, &now, false)};
    s->o.applied(s->o.arg, g->arg, &m);
    env_vars_fini(&before);
    env_vars_fini(&now);
    arena_fini(&a);
}

// ---- answers ---------------------------------------------------------------------------------

static void release(struct env_guest *g)
{
    assert(g->held != 0);
    if (--g->held == 0 && g->gone) {
        free(g);
    }
}

static void answer(void *arg)
{
    struct env_guest *g = arg;
    // A callback may ask again, forget other asks, or free the guest, and with it all asks.
    size_t n = g->asks.n;
    timer_stop(&g->patience);
    g->held++;
    for (; n != 0 && g->asks.n != 0; n--) {
        struct guest_ask ask = g->asks.p[0];
        vec_remove(&g->asks, 0);
        ask.done(ask.arg, environ_of(g));
    }
    release(g);
}

/// Answer all guests of a place; also when the coordinator found nothing changed. The last one may take the
/// place along.
static void answer_all(void *arg)
{
    const struct env_place *p = arg;
    vec(struct env_guest *) guests = {0};
    vec_foreach (g, &p->guests) {
        (*g)->held++;
        vec_push(&guests, *g);
    }
    vec_foreach (g, &guests) {
        if (!(*g)->gone) {
            answer(*g);
        }
        release(*g);
    }
    vec_fini(&guests);
}

/// Bring the guest up to date with its place: its result, and, if that is news, its failure.
static void catch_up(struct env_guest *g, const struct env_failed *m)
{
    struct env_place *p = g->place;
    assert(p->settled);
    struct env_result *r = env_coord_get_result(p->coord);
    if (r != NULL && r->generation != g->applied) {
        apply(g, r, m->changed, m->n_changed);
    }
    if (p->code == 0 || p->generation == g->told) {
        return;
    }
    g->told = p->generation;
    if (p->code != ERR_DENIED || !g->denied) {
        g->share->o.failed(g->share->o.arg, g->arg, p->root, m);
    }
    g->denied = p->code == ERR_DENIED;
}

/// A build is over, with a result or a failure: all guests of the place get it.
static void on_over(const struct env_failed *m, void *arg)
{
    struct env_place *p = arg;
    assert(p->guests.n != 0);
    p->settled = true;
    p->generation = m->generation;
    p->code = m->code;
    for (size_t i = 0; i < p->guests.n; i++) {
        catch_up(p->guests.p[i], m);
    }
    answer_all(p);
}

static void on_building(const struct env_building *m, void *arg)
{
    struct env_place *p = arg;
    p->share->o.building(p->share->o.arg, p->root, m);
}

static void on_ready(const struct env_ready *m, void *arg)
{
    struct env_place *p = arg;
    struct env_failed none = {
        .generation = m->result->generation, .changed = m->changed, .n_changed = m->n_changed};
    p->share->o.ready(p->share->o.arg, p->root, m);
    on_over(&none, p);
}

static void on_log(struct str line, void *arg)
{
    struct env_place *p = arg;
    p->share->o.log(p->share->o.arg, p->root, line);
}

// ---- places ----------------------------------------------------------------------------------

static struct env_place *open_place(struct env_share *s, const char *root, char *const *base)
{
    struct env_place *p = xcalloc(1, sizeof *p);
    struct env_coord_opts o = {.loop = s->o.loop,
                               .watcher = s->o.watcher,
                               .lane = s->lane,
                               .root = root,
                               .base = (const char *const *)base,
                               .gate = s->o.gate,
                               .builder = s->o.builder,
                               .timeout_ms = s->o.timeout_ms,
                               .cb = {on_building, on_ready, on_over, on_log, answer_all},
                               .arg = p};
    p->share = s;
    p->root = xstrdup(root);
    p->base = env_result_environ(NULL, (const char *const *)base);
    p->coord = env_coord_open(&o);
    p->next = s->places;
    s->places = p;
    env_coord_reload(p->coord, true);
    return p;
}

static void leave_place(struct env_guest *g)
{
    struct env_place *p = g->place;
    if (p == NULL) {
        return;
    }
    vec_drop(&p->guests, g);
    if (p->guests.n != 0) {
        return;
    }
    struct env_place **at = &p->share->places;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    env_coord_close(p->coord);
    vec_fini(&p->guests);
    free(p->base);
    free(p->root);
    free(p);
}

/// Check for changes; the coordinator answers sooner or later.
static void look(struct env_guest *g)
{
    const struct env_share_opts *o = &g->share->o;
    if (g->place->settled) {
        env_coord_reload(g->place->coord, false);
        timer_start(&g->patience, PATIENCE_MS);
    } else if (!timer_running(&g->patience)) {
        timer_start(&g->patience, (o->timeout_ms != 0 ? o->timeout_ms : ENV_TIMEOUT_MS) + KILL_MS);
    }
}

static void join(struct env_guest *g, const char *root)
{
    struct env_place *p = g->share->places;
    assert(g->place == NULL);
    while (p != NULL && (strcmp(p->root, root) != 0 || !is_alike(p->base, g->base))) {
        p = p->next;
    }
    g->place = p != NULL ? p : open_place(g->share, root, g->base);
    vec_push(&g->place->guests, g);
    if (g->place->settled) {
        struct env_failed m = {.generation = g->place->generation,
                               .code = g->place->code,
                               .text = env_coord_get_error(g->place->coord)};
        catch_up(g, &m);
    }
    if (g->asks.n != 0) {
        look(g);
    }
}

// ---- where is it? ----------------------------------------------------------------------------

static void find_project(void *arg) // on a worker
{
    struct env_finding *f = arg;
    f->rc = env_project_find(&f->project, f->dir, NULL);
}

static void on_found(void *arg)
{
    struct env_finding *f = arg;
    struct env_guest *g = f->guest;
    if (g != NULL) {
        g->finding = NULL;
        if (f->rc == 0 && f->project.found) {
            join(g, f->project.root);
        } else {
            answer(g);
        }
    }
    env_project_fini(&f->project);
    free(f->dir);
    free(f);
}

static void start_finding(struct env_guest *g)
{
    struct env_finding *f = xcalloc(1, sizeof *f);
    assert(g->finding == NULL && g->place == NULL);
    *f = (struct env_finding){.guest = g, .dir = xstrdup(g->dir)};
    g->finding = f;
    work_submit(g->share->lane, work_mount_key(g->dir), find_project, on_found, f);
}

/// Forget where it was and what it brought.
static void forget_place(struct env_guest *g)
{
    timer_stop(&g->patience);
    leave_place(g);
    if (g->finding != NULL) {
        g->finding->guest = NULL;
    }
    vec_fini_each(&g->mine, free);
    free(g->environ);
    free(g->base);
    g->place = NULL;
    g->finding = NULL;
    g->environ = NULL;
    g->base = NULL;
    g->applied = g->told = 0;
    g->denied = false;
}

// ---- public ----------------------------------------------------------------------------------

struct env_share *env_share_open(const struct env_share_opts *o)
{
    struct env_share *s = xcalloc(1, sizeof *s);
    s->o = *o;
    s->lane = lane_open(o->loop, "env", 2);
    return s;
}

void env_share_close(struct env_share *s)
{
    if (s != NULL) {
        assert(s->places == NULL);
        lane_close(s->lane);
        free(s);
    }
}

void env_share_set_timeout(struct env_share *s, uint64_t ms)
{
    s->o.timeout_ms = ms;
}

struct env_guest *env_guest_new(struct env_share *s, const char *dir, const char *const *base,
                                void *arg)
{
    struct env_guest *g = xcalloc(1, sizeof *g);
    g->share = s;
    g->arg = arg;
    g->dir = xstrdup(dir);
    g->base = env_result_environ(NULL, base);
    timer_init(&g->patience, s->o.loop, answer, g);
    start_finding(g);
    return g;
}

void env_guest_free(struct env_guest *g)
{
    if (g == NULL) {
        return;
    }
    forget_place(g);
    vec_fini(&g->asks);
    free(g->dir);
    g->gone = true;
    g->held++;
    release(g);
}

void env_guest_move(struct env_guest *g, const char *dir, const char *const *base)
{
    char **fresh = env_result_environ(NULL, base);
    if (strcmp(g->dir, dir) == 0 && is_alike(g->base, fresh)) {
        free(fresh);
        return;
    }
    forget_place(g);
    free(g->dir);
    g->dir = xstrdup(dir);
    g->base = fresh;
    start_finding(g);
}

void env_guest_ask(struct env_guest *g, env_guest_fn *done, void *arg)
{
    struct guest_ask ask = {.done = done, .arg = arg};
    vec_push(&g->asks, ask);
    if (g->place != NULL) {
        look(g);
    } else if (g->finding == NULL) {
        start_finding(g); // an environment may have come since
    }
}

void env_guest_forget(struct env_guest *g, void *arg)
{
    for (size_t i = 0; i < g->asks.n; i++) {
        if (g->asks.p[i].arg == arg) {
            vec_remove(&g->asks, i);
            i--;
        }
    }
}
