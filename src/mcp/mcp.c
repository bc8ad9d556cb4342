// Which servers there are: a source of generations.
//
//     settings changed ──> request ──> stage: compare each [mcp.NAME] by its hash ──┬─ the same: it stays, with its
//                                                                                  │  process and its sessions
//                                                                                  ├─ new, changed: a new unit
//                                                                                  └─ gone, disabled: removed
//     commit ──> new servers start ──> their tools join the generation when they are known
//
// A server that was replaced continues for the calls that began with it; its process ends when the last generation that
// knows it is freed. Only mcp_enter() waits for servers, and for a bounded time.

#include "mcp/mcp.h"

#include <assert.h>

#include "base/log.h"
#include "base/path.h"
#include "base/time.h"
#include "config/home.h"
#include "loop/work.h"
#include "mcp/server_int.h"
#include "trust/guard.h"
#include "trust/trust.h"

enum { WAIT_MS = 5000, COMPLETE_MS = 2000, LANE_THREADS = 4 };

#define UNIT_PREFIX "mcp:"

/// A caller that waits for servers that start.
struct mcp_waiter {
    struct mcp *m;
    char *session, *dir; // may be NULL
    struct timer timer;
    struct loop_task *task;
    bool running; // waits for a run of the engine first
    uint64_t since;
    loop_fn *done;
    void *arg;
};

struct mcp_test {
    struct mcp *m;
    struct mcp_server *server;
    uint64_t since_ns;
    struct loop_task *task; // tells the outcome
    mcp_test_cb *cb;
    void *arg;
};

static bool is_same(const char *a, const char *b) // either may be NULL
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool spec_reaches(const struct mcp_spec *s, const char *session, const char *dir)
{
    return s->session != NULL
               ? session != NULL && strcmp(s->session, session) == 0
               : s->project == NULL || (dir != NULL && path_below(s->project, dir) != NULL);
}

// ---- what the settings say --------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    const struct mcp_spec *x = *(struct mcp_spec *const *)a, *y = *(struct mcp_spec *const *)b;
    return strcmp(x->name, y->name);
}

static void read_specs(const struct mcp *m, mcp_specs *out)
{
    const char *name;
    for (size_t at = 0; (name = config_next_name(m->o.hub->config->now, "mcp", &at)) != NULL;) {
        vec_push(out, mcp_spec_of_config(m->o.hub->config->now, name));
    }
    size_t own = out->n;
    mcp__projects_specs(m->projects, out);
    mcp__guests_specs(m, out);
    for (size_t i = own; i < out->n; i++) { // none can take the place of the user's
        struct mcp_spec *s = out->p[i];
        for (size_t k = 0; k < own; k++) {
            struct arena a = {0};
            bool same =
                str_eq(mcp_name(&a, s->name, STR_NULL), mcp_name(&a, out->p[k]->name, STR_NULL));
            arena_fini(&a);
            if (same) { // `a.b` and `a_b` are cleaned to the same
                s->error = "config.toml has a server of this name, which is used instead";
                s->hash[0] = '!'; // another one than the same server without this
            }
        }
    }
    if (out->n != 0) {
        qsort(out->p, out->n, sizeof *out->p, by_name);
    }
}

/// Do they stand for the same server, perhaps in two versions?
static bool is_version(const struct mcp_spec *a, const struct mcp_spec *b)
{
    return strcmp(a->name, b->name) == 0 && is_same(a->project, b->project) &&
           is_same(a->session, b->session);
}

static struct mcp_server *find(const struct mcp *m, const struct mcp_spec *spec)
{
    vec_foreach (it, &m->servers) {
        if (is_version((*it)->spec, spec)) {
            return *it;
        }
    }
    return NULL;
}

/// Is anything other than what runs?
static bool differs(const struct mcp *m, const mcp_specs *specs)
{
    size_t enabled = 0, disabled = 0;
    bool same = true;
    vec_foreach (it, specs) {
        const struct mcp_server *s = find(m, *it);
        enabled += (*it)->enabled;
        disabled += !(*it)->enabled;
        same = same && (!(*it)->enabled || (s != NULL && strcmp(s->spec->hash, (*it)->hash) == 0));
    }
    return !same || enabled != m->servers.n || disabled != m->disabled.n;
}

// ---- the source -------------------------------------------------------------------------------

static void src_prepare(void *arg, struct gen_source *src, const struct gen_request *req)
{
    struct mcp *m = arg;
    mcp_specs specs = {0};
    read_specs(m, &specs);
    bool something = !m->stopped && (differs(m, &specs) || (req->force && m->servers.n != 0));
    vec_fini_each(&specs, mcp_spec_free);
    gen_prepared(src, something);
}

static char *unit_name(const struct mcp_spec *s)
{
    const char *of = s->session != NULL ? s->session : s->project;
    return of == NULL ? xasprintf(UNIT_PREFIX "%s", s->name)
                      : xasprintf(UNIT_PREFIX "%s@%s", s->name, of);
}

/// A new version of the server `spec`, which is owned from here on.
static void stage_server(struct mcp *m, struct gen_stage *st, struct mcp_spec *spec, int order)
{
    struct mcp_server *s = mcp__server_new(m, spec);
    char *name = unit_name(spec);
    struct gen_unit_spec u = {.name = name,
                              .path = spec->url != NULL ? spec->url : spec->command,
                              .layer = spec->session != NULL   ? "session"
                                       : spec->project != NULL ? "repo"
                                                               : "config",
                              .host = "mcp",
                              .origin = "file",
                              .hash = spec->hash,
                              .order = order,
                              .data = s};
    s->unit = gen_stage_unit(st, &u);
    if (gen_stage_put(st, s->unit)) {
        vec_push(&m->staged, s);
    }
    free(name);
}

static void src_stage(void *arg, struct gen_stage *st)
{
    struct mcp *m = arg;
    const struct gen_request *req = gen_stage_request(st);
    mcp_specs specs = {0};
    if (m->stopped) {
        return;
    }
    read_specs(m, &specs);
    vec_foreach (it, &m->servers) {
        const struct mcp_spec *now = NULL;
        vec_foreach (spec, &specs) {
            now = is_version(*spec, (*it)->spec) ? *spec : now;
        }
        if (now == NULL || !now->enabled) {
            gen_stage_remove(st, (*it)->unit->name, now == NULL ? GEN_REMOVE : GEN_DISABLE);
        }
    }
    for (size_t i = 0; i < specs.n; i++) {
        struct mcp_spec *spec = specs.p[i];
        const struct mcp_server *s = find(m, spec);
        char *name = unit_name(spec);
        bool asked = req->n_names == 0;
        for (size_t k = 0; k < req->n_names; k++) {
            asked = asked || str_eqz(req->names[k], name);
        }
        bool force = req->force && asked;
        if (spec->enabled && (s == NULL || force || strcmp(s->spec->hash, spec->hash) != 0)) {
            stage_server(m, st, spec, (int)i);
            specs.p[i] = NULL;
        }
        free(name);
    }
    vec_fini_each(&specs, mcp_spec_free);
}

/// A run that was only tried leaves `m->servers` alone: units that were never committed are released.
static void src_abort(void *arg)
{
    struct mcp *m = arg;
    m->staged.n = 0;
}

static int by_server(const void *a, const void *b)
{
    return by_name(&(*(struct mcp_server *const *)a)->spec,
                   &(*(struct mcp_server *const *)b)->spec);
}

static void src_commit(void *arg)
{
    struct mcp *m = arg;
    mcp_specs specs = {0};
    read_specs(m, &specs);
    for (size_t i = 0; i < m->servers.n;) {
        const struct mcp_server *s = m->servers.p[i];
        if (s->unit->life == GEN_CURRENT) {
            i++;
            continue;
        }
        if (s->document != NULL) {
            gen_unwarn(m->o.engine, DIAG_LIMIT_REACHED, s->document);
        }
        vec_remove(&m->servers, i);
    }
    vec_fini_each(&m->disabled, mcp_spec_free);
    for (size_t i = 0; i < specs.n; i++) {
        if (!specs.p[i]->enabled) {
            vec_push(&m->disabled, specs.p[i]);
            specs.p[i] = NULL;
        }
    }
    vec_fini_each(&specs, mcp_spec_free);
    vec_foreach (it, &m->staged) {
        vec_push(&m->servers, *it);
    }
    if (m->servers.n != 0) {
        qsort(m->servers.p, m->servers.n, sizeof *m->servers.p, by_server);
    }
    for (size_t i = 0; i < m->staged.n; i++) {
        mcp__server_start(m->staged.p[i]);
    }
    m->staged.n = 0;
    mcp__wake(m);
}

static void src_release(void *arg, struct gen_unit *u)
{
    struct mcp *m = arg;
    struct mcp_server *s = u->data;
    vec_drop(&m->servers, s);
    s->unit = NULL;
    mcp__server_close(s);
}

static const struct gen_source_ops source_ops = {.name = "mcp",
                                                 .prepare = src_prepare,
                                                 .stage = src_stage,
                                                 .commit = src_commit,
                                                 .abort = src_abort,
                                                 .release = src_release};

void mcp__changed(struct mcp *m)
{
    mcp_specs specs = {0};
    read_specs(m, &specs);
    if (!m->stopped && differs(m, &specs)) {
        gen_request(m->o.engine, &(struct gen_request){.trigger = "config"}, NULL, NULL);
    }
    vec_fini_each(&specs, mcp_spec_free);
}

static void on_settings(void *arg)
{
    mcp__changed(arg);
}

// ---- waiting ------------------------------------------------------------------------------------

/// Call a waiter whose servers have started, or that has waited long enough.
static void waiter_look(void *arg)
{
    struct mcp_waiter *w = arg;
    struct mcp *m = w->m;
    uint64_t past = loop_now(m->o.hub->loop) - w->since, left = 0;
    vec_foreach (it, &m->servers) {
        const struct mcp_server *s = *it;
        uint64_t limit = MIN(s->spec->timeout_ms, (uint64_t)WAIT_MS);
        if (!m->stopped && s->first && spec_reaches(s->spec, w->session, w->dir) && limit > past) {
            left = MAX(left, limit - past);
        }
    }
    w->task = NULL;
    if (left != 0) {
        timer_start(&w->timer, left);
        return;
    }
    loop_fn *done = w->done;
    void *done_arg = w->arg;
    vec_drop(&m->waiters, w);
    timer_stop(&w->timer);
    free(w->session);
    free(w->dir);
    free(w);
    done(done_arg);
}

void mcp__wake(struct mcp *m)
{
    vec_foreach (it, &m->waiters) {
        if ((*it)->task == NULL && !(*it)->running) {
            (*it)->task = loop_defer(m->o.hub->loop, waiter_look, *it);
        }
    }
}

static void on_run(const struct gen_report *r, void *arg)
{
    struct mcp_waiter *w = arg;
    (void)r;
    w->running = false;
    waiter_look(w);
}

void mcp__wait(struct mcp *m, const struct mcp_place *at, loop_fn *done, void *arg)
{
    struct mcp_waiter *w = xcalloc(1, sizeof *w);
    *w = (struct mcp_waiter){.m = m,
                             .session = at->session != NULL ? xstrdup(at->session) : NULL,
                             .dir = at->dir != NULL ? xstrdup(at->dir) : NULL,
                             .since = loop_now(m->o.hub->loop),
                             .done = done,
                             .arg = arg};
    timer_init(&w->timer, m->o.hub->loop, waiter_look, w);
    mcp_specs specs = {0};
    read_specs(m, &specs);
    if (!m->stopped && differs(m, &specs)) { // they start with the run that this asks for
        w->running = true;
        gen_request(m->o.engine, &(struct gen_request){.trigger = "config"}, on_run, w);
    } else {
        w->task = loop_defer(m->o.hub->loop, waiter_look, w);
    }
    vec_push(&m->waiters, w);
    vec_fini_each(&specs, mcp_spec_free);
}

// ---- public -------------------------------------------------------------------------------------

static struct trust_outside list_outside(void *arg, struct arena *a)
{
    const struct mcp *m = arg;
    return trust_list_outside(m->o.hub->trust, m->o.hub->home->dir, m->o.plugins, m->o.arg, a);
}

struct mcp *mcp_open(const struct mcp_opts *o)
{
    struct mcp *m = xcalloc(1, sizeof *m);
    m->o = *o;
    m->world = (struct mcp_world){.loop = o->hub->loop,
                                  .lane = lane_open(o->hub->loop, "mcp", LANE_THREADS),
                                  .http = o->http,
                                  .home = o->hub->home,
                                  .config = o->hub->config,
                                  .outside = list_outside,
                                  .arg = m};
    gen_source_add(o->engine, &source_ops, m);
    m->projects = mcp__projects_open(m);
    config_listen(o->hub->config, on_settings, m);
    return m;
}

static void end_test(struct mcp_test *t, bool ok, const char *members);

void mcp_stop(struct mcp *m)
{
    if (m != NULL && !m->stopped) {
        m->stopped = true;
        config_unlisten(m->o.hub->config, on_settings, m);
        mcp__projects_close(m->projects);
        while (m->tests.n != 0) {
            end_test(m->tests.p[0], false, NULL);
        }
        mcp__wake(m);
    }
}

void mcp_close(struct mcp *m)
{
    if (m != NULL) {
        assert(m->stopped && m->servers.n == 0);
        mcp_link_http_stop(&m->world);
        m->world.http = NULL;
        lane_close(m->world.lane);
        m->world.lane = NULL;
    }
}

void mcp_free(struct mcp *m)
{
    if (m != NULL) {
        assert(m->alive == 0 && m->waiters.n == 0);
        vec_fini(&m->servers);
        vec_fini(&m->staged);
        vec_fini(&m->tests);
        vec_fini(&m->waiters);
        vec_fini_each(&m->disabled, mcp_spec_free);
        mcp__projects_free(m->projects);
        mcp__guests_free(m);
        free(m);
    }
}

enum mcp_reach mcp_reach(const struct mcp *m, const struct gen_unit *u, const char *session,
                         const char *dir)
{
    if (m == NULL || strcmp(u->host, "mcp") != 0) {
        return MCP_FOREIGN;
    }
    const struct mcp_server *s = u->data;
    return spec_reaches(s->spec, session, dir) ? MCP_HERE : MCP_NOT_HERE;
}

static void write_disabled(const struct mcp_spec *spec, struct jw *w)
{
    static const char *const lists[] = {"tools", "prompts", "resources", "templates"};
    jw_kstrz(w, "name", spec->name);
    jw_kstrz(w, "state", mcp__state_name(MCP_DISABLED));
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        jw_karr(w, lists[i]);
        jw_end_arr(w);
    }
    jw_kstrz(w, "error", spec->error);
    jw_kstrz(w, "transport", spec->url != NULL ? "http" : "stdio");
    jw_kstrz(w, "project", spec->project);
}

/// Write all servers, or the first that is called `name`. False: there is none.
static bool write_servers(const struct mcp *m, struct str name, struct jw *w)
{
    bool all = name.p == NULL, any = false;
    vec_foreach (it, &m->servers) {
        if (all || (!any && str_eqz(name, (*it)->spec->name))) {
            jw_obj(w);
            mcp__server_write(*it, !all, w);
            jw_end_obj(w);
            any = true;
        }
    }
    vec_foreach (it, &m->disabled) {
        if (all || (!any && str_eqz(name, (*it)->name))) {
            jw_obj(w);
            write_disabled(*it, w);
            jw_end_obj(w);
            any = true;
        }
    }
    return any;
}

void mcp_write(const struct mcp *m, struct jw *w)
{
    (void)write_servers(m, STR_NULL, w);
}

bool mcp_write_one(const struct mcp *m, struct str name, struct jw *w)
{
    return write_servers(m, name, w);
}

// ---- resources ----------------------------------------------------------------------------------

struct reading {
    struct gen_call call;
    mcp_read_cb *cb;
    void *arg;
};

static void on_read(struct gen_call *call, int status, const struct json *output,
                    const struct err *e)
{
    struct reading *r = container_of(call, struct reading, call);
    r->cb(r->arg, status == 0 ? output : NULL, e);
    free(r);
}

/// The server `name` and a call to it; NULL: there is none.
static struct mcp_server *begin_call(const struct mcp *m, struct str name, mcp_read_cb *cb,
                                     void *arg, struct gen_call **call)
{
    vec_foreach (it, &m->servers) {
        if (str_eqz(name, (*it)->spec->name)) {
            struct reading *r = xcalloc(1, sizeof *r);
            *r = (struct reading){.call.done = on_read, .cb = cb, .arg = arg};
            *call = &r->call;
            return *it;
        }
    }
    return NULL;
}

bool mcp_read(struct mcp *m, struct str name, struct str uri, mcp_read_cb *cb, void *arg)
{
    struct gen_call *call;
    struct mcp_server *s = begin_call(m, name, cb, arg, &call);
    if (s != NULL) {
        mcp__read(s, uri, call);
    }
    return s != NULL;
}

bool mcp_complete(struct mcp *m, struct str name, const struct mcp_typed *typed, mcp_read_cb *cb,
                  void *arg)
{
    struct gen_call *call;
    struct mcp_server *s = begin_call(m, name, cb, arg, &call);
    if (s != NULL) {
        call->timeout_ms = COMPLETE_MS;
        mcp__complete(s, typed, call);
    }
    return s != NULL;
}

// ---- tests --------------------------------------------------------------------------------------

static void end_test(struct mcp_test *t, bool ok, const char *members)
{
    struct mcp *m = t->m;
    vec_drop(&m->tests, t);
    if (t->task != NULL) {
        loop_cancel(m->o.hub->loop, t->task);
    }
    t->cb(t->arg, ok, members);
    t->server->tested = NULL;
    mcp__server_close(t->server);
    free(t);
}

static void on_told(void *arg)
{
    struct mcp_test *t = arg;
    const struct mcp_server *s = t->server;
    struct buf text = {.max = SIZE_MAX};
    t->task = NULL;
    struct jw w = {.out = &text};
    jw_obj(&w);
    mcp__server_write(s, false, &w);
    jw_kbool(&w, "ok", s->state == MCP_READY);
    jw_kint(&w, "duration_ms", (int64_t)((time_mono_ns() - t->since_ns) / 1000000));
    jw_end_obj(&w);
    text.p[text.n - 1] = '\0'; // without the braces
    end_test(t, s->state == MCP_READY, text.p + 1);
    buf_fini(&text);
}

static void on_tested(struct mcp_server *s, void *arg)
{
    struct mcp_test *t = arg;
    s->tested = NULL;
    t->task = loop_defer(t->m->o.hub->loop, on_told, t); // it is in the middle of its work
}

bool mcp_test(struct mcp *m, struct str name, mcp_test_cb *cb, void *arg)
{
    mcp_specs specs = {0};
    struct mcp_spec *found = NULL;
    read_specs(m, &specs);
    vec_foreach (it, &specs) {
        if (found == NULL && str_eqz(name, (*it)->name)) {
            found = *it;
            *it = NULL;
        }
    }
    vec_fini_each(&specs, mcp_spec_free);
    if (found == NULL || m->stopped) {
        mcp_spec_free(found);
        return false;
    }
    struct mcp_test *t = xcalloc(1, sizeof *t);
    *t = (struct mcp_test){.m = m, .since_ns = time_mono_ns(), .cb = cb, .arg = arg};
    t->server = mcp__server_new(m, found);
    t->server->tested = on_tested;
    t->server->tested_arg = t;
    vec_push(&m->tests, t);
    mcp__server_start(t->server);
    return true;
}
