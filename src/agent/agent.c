// The agent: the table of sessions, start and stop.
//
// At the start, sessions that the index lists as running or waiting were left open by a hub that was
// killed: their open turns are closed in the journal and they are marked crashed, one after the other,
// before any client can connect. At the stop every turn is interrupted, and the agent waits until their
// last events are written.
//
// `n_busy` counts everything of the agent that will still call back: agent_stop() is done when it is 0.

#include <assert.h>
#include <stdarg.h>

#include "agent/agent_int.h"
#include "base/log.h"
#include "base/path.h"
#include "base/redact.h"
#include "config/secrets.h"
#include "config/token.h"
#include "trust/trust.h"

bool agent_no_set(struct agent_no *no, enum problem p, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    agent_no_vset(no, p, hint, fmt, args);
    va_end(args);
    return false;
}

void agent_no_vset(struct agent_no *no, enum problem p, const char *hint, const char *fmt,
                   va_list args)
{
    no->problem = p;
    snprintf(no->hint, sizeof no->hint, "%s", hint != NULL ? hint : "");
    vsnprintf(no->detail, sizeof no->detail, fmt, args);
}

const struct agent_no *agent__no_store(struct agent_no *no, int status, const struct err *e)
{
    if (status == 0) {
        return NULL;
    }
    enum problem p = e->code == ERR_NOT_FOUND
                         ? PROBLEM_NOT_FOUND // the session was removed meanwhile
                     : e->code == ERR_CONFLICT ? PROBLEM_CONFLICT // another hub runs it
                                               : PROBLEM_STORE_FAILED;
    agent_no_set(no, p, NULL, "%s", e->msg);
    return no;
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
        a->idle_task = loop_defer(a->o.hub->loop, on_idle, a);
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

bool agent_has_stopped(const struct agent *a)
{
    return a->files == NULL;
}

static void on_settings(void *arg)
{
    agent__read_rules(arg);
}

void agent_free(struct agent *a)
{
    if (a == NULL) {
        return;
    }
    map_fini_each(&a->sessions, agent__session_free);
    config_unlisten(a->o.hub->config, on_settings, a);
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

void agent_guard(const struct agent *a, struct tool_env *env, struct arena *arena)
{
    env->outside = trust_list_outside(a->o.hub->trust, a->o.hub->home->dir, a->o.host.loaded,
                                      a->o.host.plugins, arena);
    env->memory = (uint64_t)config_int(a->o.hub->config->now, "limits.command_mb") << 20;
    env->processes = (uint64_t)config_int(a->o.hub->config->now, "limits.command_processes");
}

// ---- start --------------------------------------------------------------------------------------

/// Marks the sessions that a killed hub left open as crashed, one after the other.
struct marking {
    struct agent *a;
    vec(struct session *) list;
    size_t at;      // the next one of `list` to mark
    unsigned asked; // how many of the states in `left` were listed
};

static const char *const left[] = {"running", "waiting"};

static void mark_next(struct marking *m);

static void on_marked(struct session *s, int status, const struct err *e, void *arg)
{
    struct marking *m = arg;
    if (status < 0) {
        log_error(LOG_HUB, "session=%s cannot mark it as crashed: %s", s->id,
                  LOGQ(str_of(e->msg)).z);
    }
    if (store_shared(m->a->o.hub->store)) {
        store_release(m->a->o.hub->store, str_of(s->id));
    }
    agent__session_free(s);
    mark_next(m);
}

/// In a shared store another hub may have claimed the session first.
static void on_stray_claimed(void *arg, int status, const struct store_row *row,
                             const struct err *e)
{
    struct marking *m = arg;
    struct session *s = m->list.p[m->at++];
    if (status < 0) {
        log_info(LOG_HUB, "session=%s not marked as crashed: %s", s->id, LOGQ(str_of(e->msg)).z);
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
    if (m->at < m->list.n && store_shared(a->o.hub->store)) {
        store_claim(a->o.hub->store, str_of(m->list.p[m->at]->id), on_stray_claimed, m);
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
        log_error(LOG_HUB, "cannot list the sessions that were left open: %s",
                  LOGQ(str_of(e->msg)).z);
    }
    for (size_t i = 0; status == 0 && i < r->n; i++) {
        struct session *s = agent__session_of_row(m->a, &r->rows[i]);
        if (s->broken) { // its metadata are damaged, and lists of sessions say so
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
    store_list(m->a->o.hub->store, &f, STR_NULL, 0, on_left, m);
}

static void know_secrets(const struct home *h)
{
    char token[TOKEN_LEN + 1];
    struct err ignored;
    secrets_know(h->secrets);
    if (token_read(h->token, token, &ignored) == 0) { // also while the hub does not listen on TCP
        redact_add(STR("token"), str_of(token));
        explicit_bzero(token, sizeof token);
    }
}

static void learn_first(void *arg) // on a lane
{
    const struct marking *m = arg;
    know_secrets(m->a->o.hub->home);
}

static void on_learned_first(void *arg)
{
    list_next(arg);
}

static void learn_again(void *arg) // on a lane
{
    const struct agent *a = arg;
    know_secrets(a->o.hub->home);
}

static void on_learned_again(void *arg)
{
    agent__release(arg);
}

void agent_learn_secrets(struct agent *a)
{
    if (!agent_has_stopped(a)) {
        agent__hold(a);
        work_submit(a->files, 0, learn_again, on_learned_again, a);
    }
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
    assert(o->hub->loop != NULL && o->hub->store != NULL && o->engine != NULL &&
           o->providers != NULL);
    a->o = *o;
    providers_set_offers(
        o->providers,
        &(struct provider_offers){.engine = o->engine, .reaches = offer_reaches, .arg = a});
    a->ready = ready;
    a->ready_arg = arg;
    map_init(&a->sessions);
    map_init(&a->editors);
    a->files = lane_open(o->hub->loop, "agent", 2);
    a->requests = lane_open(o->hub->loop, "requests", 1);
    a->tools = lane_open(o->hub->loop, "tools", 4);
    a->rewind = rewind_open(o->hub->loop);
    a->book = book_new(o->hub->store, a->files, o->hub->home->dir);
    rules_init(&a->rules);
    on_settings(a);
    config_listen(o->hub->config, on_settings, a);
    m->a = a;
    agent__hold(a);
    work_submit(a->files, 0, learn_first, on_learned_first,
                m); // before anything is shown or stored
    return a;
}
