// The agent: the table of sessions, start and stop.
//
// At the start, sessions that the index calls running or waiting were left open by a hub that was
// killed: their open turns are closed in the journal and they are marked crashed, one after the other,
// before anybody may connect. At the stop every turn is interrupted and the agent waits until what they
// have to write is written.
//
// `n_busy` counts everything of ours that will call back: the agent goes when it is 0.

#include <assert.h>
#include <stdarg.h>

#include "agent/agent_int.h"
#include "base/log.h"
#include "config/secrets.h"
#include "trust/trust.h"

void agent__no(struct agent_no *no, enum problem p, const char *hint, const char *fmt, ...)
{
    va_list args;
    no->problem = p;
    snprintf(no->hint, sizeof no->hint, "%s", hint != NULL ? hint : "");
    va_start(args, fmt);
    vsnprintf(no->detail, sizeof no->detail, fmt, args);
    va_end(args);
}

void agent__no_store(struct agent_no *no, const struct err *e)
{
    bool gone = e->code == ERR_NOT_FOUND; // somebody removed it meanwhile
    bool taken = e->code == ERR_CONFLICT; // another hub has it
    agent__no(no,
              gone    ? PROBLEM_NOT_FOUND
              : taken ? PROBLEM_CONFLICT
                      : PROBLEM_STORE_FAILED,
              NULL, "%s", e->msg);
}

// ---- stop ---------------------------------------------------------------------------------------

static void on_idle(void *arg)
{
    struct agent *a = arg;
    a->idle_task = NULL;
    if (a->n_busy == 0 && a->stopped != NULL) {
        loop_fn *stopped = a->stopped;
        a->stopped = NULL;
        lane_close(a->files);
        lane_close(a->requests);
        lane_close(a->tools);
        rewind_close(a->rewind);
        a->files = a->requests = a->tools = NULL;
        stopped(a->stopped_arg);
    }
}

static void check_idle(struct agent *a)
{
    if (a->n_busy == 0 && a->stopping && a->stopped != NULL && a->idle_task == NULL) {
        a->idle_task = loop_defer(a->o.loop, on_idle, a);
    }
}

void agent__hold(struct agent *a)
{
    a->n_busy++;
}

void agent__release(struct agent *a)
{
    assert(a->n_busy != 0);
    a->n_busy--;
    check_idle(a);
}

void agent_stop(struct agent *a, loop_fn *done, void *arg)
{
    size_t at = 0;
    struct str id;
    void *s;
    assert(!a->stopping && done != NULL);
    a->stopping = true;
    a->stopped = done;
    a->stopped_arg = arg;
    while (map_next(&a->sessions, &at, &id, &s)) {
        agent_interrupt(s);
    }
    agent__cancel_runs(a);
    check_idle(a);
}

static void on_settings(void *arg)
{
    agent__read_rules(arg);
}

void agent_free(struct agent *a)
{
    size_t at = 0;
    struct str id;
    void *s;
    if (a == NULL) {
        return;
    }
    while (map_next(&a->sessions, &at, &id, &s)) {
        agent__session_free(s);
    }
    config_unlisten(a->o.config, on_settings, a);
    map_fini(&a->sessions);
    map_fini(&a->editors);
    rules_fini(&a->rules);
    book_free(a->book);
    agent__drop_shelf(a);
    free(a);
}

const struct rules *agent_rules(const struct agent *a)
{
    return &a->rules;
}

struct book *agent_book(struct agent *a)
{
    return a->stopping ? NULL : a->book;
}

struct guarding {
    const struct agent *a;
    vec(const char *) plugins;
};

/// What is in the home itself no box opens; links in it that lead elsewhere trust_guards_read() finds.
static void add_plugin(void *arg, const char *path)
{
    struct guarding *g = arg;
    size_t n = strlen(g->a->o.home->dir);
    if (strncmp(path, g->a->o.home->dir, n) != 0 || path[n] != '/') {
        vec_push(&g->plugins, path);
    }
}

void agent_guard(const struct agent *a, struct tool_env *env, struct arena *arena)
{
    struct guarding g = {.a = a};
    size_t n = 0;
    a->o.host.loaded(a->o.host.plugins, add_plugin, &g);
    const char **plugins = arena_calloc(arena, g.plugins.n + 1, sizeof *plugins);
    for (size_t i = 0; i < g.plugins.n; i++) {
        plugins[i] = arena_strdup(arena, str_of(g.plugins.p[i]));
    }
    while (trust_followed(a->o.trust, n) != NULL) {
        n++;
    }
    const char **followed = arena_calloc(arena, n + 1, sizeof *followed);
    for (size_t i = 0; i < n; i++) {
        followed[i] = arena_strdup(arena, str_of(trust_followed(a->o.trust, i)));
    }
    vec_fini(&g.plugins);
    env->plugins = plugins;
    env->followed = followed;
    env->memory = (uint64_t)config_int(a->o.config->now, "limits.command_mb") << 20;
    env->processes = (uint64_t)config_int(a->o.config->now, "limits.command_processes");
}

// ---- start --------------------------------------------------------------------------------------

/// Sessions that a killed hub left open, marked one after the other.
struct marking {
    struct agent *a;
    vec(struct session *) list;
    size_t at;
    unsigned asked; // states
};

static const char *const left[] = {"running", "waiting"};

static void mark_next(struct marking *m);

static void on_marked(struct session *s, int status, const struct err *e, void *arg)
{
    struct marking *m = arg;
    if (status < 0) {
        log_error(LOG_HUB, "session=%s cannot be marked crashed: %s", s->id,
                  LOGQ(str_of(e->msg)).z);
    }
    if (store_shared(m->a->o.store)) {
        store_release(m->a->o.store, str_of(s->id));
    }
    agent__session_free(s);
    mark_next(m);
}

/// Of a shared store: another hub may have been quicker.
static void on_stray_claimed(void *arg, int status, const struct store_row *row,
                             const struct err *e)
{
    struct marking *m = arg;
    struct session *s = m->list.p[m->at++];
    if (status < 0) {
        log_info(LOG_HUB, "session=%s is left alone: %s", s->id, LOGQ(str_of(e->msg)).z);
        agent__session_free(s);
        mark_next(m);
        return;
    }
    s->last_seq = row->last_seq;
    if (str_lookup(row->state, left, ARRAY_LEN(left)) >= 0) {
        agent__session_mark_crashed(s, on_marked, m);
    } else {
        on_marked(s, 0, NULL, m);
    }
}

static void mark_next(struct marking *m)
{
    struct agent *a = m->a;
    if (m->at < m->list.n && store_shared(a->o.store)) {
        store_claim(a->o.store, str_of(m->list.p[m->at]->id), on_stray_claimed, m);
        return;
    }
    if (m->at < m->list.n) {
        agent__session_mark_crashed(m->list.p[m->at++], on_marked, m);
        return;
    }
    if (m->list.n != 0) {
        log_warn(LOG_HUB, "sessions=crashed n=%zu", m->list.n);
    }
    vec_fini(&m->list);
    free(m);
    a->ready(a->ready_arg);
    agent__release(a);
}

static void list_next(struct marking *m);

static void on_left(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct marking *m = arg;
    if (status < 0) {
        log_error(LOG_HUB, "sessions left open cannot be listed: %s", LOGQ(str_of(e->msg)).z);
    }
    for (size_t i = 0; status == 0 && i < r->n; i++) {
        struct session *s = agent__session_of_row(m->a, &r->rows[i]);
        if (s->broken) { // what it was doing is as lost as the rest; lists say so
            agent__session_free(s);
        } else {
            vec_push(&m->list, s);
        }
    }
    list_next(m);
}

static void list_next(struct marking *m)
{
    if (m->asked == ARRAY_LEN(left)) {
        mark_next(m);
        return;
    }
    struct store_filter f = {.state = str_of(left[m->asked++]), .stray = true};
    store_list(m->a->o.store, &f, STR_NULL, 0, on_left, m);
}

static void know_secrets(void *arg) // on a lane
{
    secrets_know(((struct agent *)arg)->o.home->secrets);
}

static void on_secrets(void *arg)
{
    agent__release(arg);
}

static bool offer_reaches(void *arg, const struct gen_unit *u, const char *dir)
{
    const struct agent_host *h = &((const struct agent *)arg)->o.host;
    return h->reach(h->plugins, u, "", dir) != AGENT_NEVER;
}

struct agent *agent_open(const struct agent_opts *o, loop_fn *ready, void *arg)
{
    struct agent *a = xcalloc(1, sizeof *a);
    struct marking *m = xcalloc(1, sizeof *m);
    assert(o->loop != NULL && o->store != NULL && o->engine != NULL && o->providers != NULL);
    a->o = *o;
    providers_set_offers(
        o->providers,
        &(struct provider_offers){.engine = o->engine, .reaches = offer_reaches, .arg = a});
    a->ready = ready;
    a->ready_arg = arg;
    map_init(&a->sessions);
    map_init(&a->editors);
    a->files = lane_open(o->loop, "agent", 2);
    a->requests = lane_open(o->loop, "requests", 1);
    a->tools = lane_open(o->loop, "tools", 4);
    a->rewind = rewind_open(o->loop);
    a->book = book_new(o->store, a->files, o->home->dir);
    rules_init(&a->rules);
    on_settings(a);
    config_listen(o->config, on_settings, a);
    agent__hold(a);
    work_submit(a->files, 0, know_secrets, on_secrets, a);
    m->a = a;
    agent__hold(a);
    list_next(m);
    return a;
}
