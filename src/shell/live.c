// The running session: what the coordinator builds is offered to the shell.
//
//     building ──> status
//     ready ──> rendered for this shell ──> offered ──> signal ──> ack ──> applied, status
//     failed ──> status, and a note at the next prompt; the shell keeps what it has
//
// The newest result is always the one offered. The shell's ack says which one it took; only then is the
// next one rendered as a difference to that. When the disk is full the offer is tried again.

#include <assert.h>
#include <unistd.h>

#include "base/visible.h"
#include "shell/live_int.h"
#include "shell/rc.h"
#include "shell/report.h"
#include "shell/task_text.h"

enum { CALM_MS = 3000, RETRY_MS = 1000, DAMAGED_MAX = 2 };

static const char *key_of(void)
{
    const char *key = getenv("AFLOAT_RELOAD_KEYBIND");
    return key != NULL && key[0] != '\0' ? key : "\\e\\C-r";
}

static struct status status_of(const struct live *v, enum status_state s)
{
    const struct run *r = v->run;
    const char *no_color = getenv("NO_COLOR");
    struct status st = {
        .state = s, .key = key_of(), .plain = no_color != NULL && no_color[0] != '\0'};
    st.changed = (const char *const *)r->changed;
    st.n_changed = r->n_changed;
    st.duration_ms = r->result != NULL ? r->result->duration_ms : 0;
    env_coord_get_inputs(r->coord, &st.n_inputs);
    return st;
}

void live__show(struct live *v, enum status_state s)
{
    struct status st = status_of(v, s);
    assert(v->session != NULL);
    v->state = s;
    session_show(v->session, &st);
}

/// What to show when nothing happens.
static void show_rest(struct live *v)
{
    live__show(v, env_coord_is_paused(v->run->coord) ? STATUS_PAUSED
                  : v->run->failure != NULL          ? STATUS_FAILED
                                                     : STATUS_WATCHING);
}

static void on_calm(void *arg)
{
    struct live *v = arg;
    if (v->state == STATUS_RELOADED) {
        show_rest(v);
    }
}

void live__note(struct live *v, const char *slot, const char *text)
{
    struct err e;
    if (v->run->o->status == STATUS_PROMPT && offers_note(v->offers, slot, str_of(text), &e) == 0) {
        session_poke(v->session);
    }
}

/// The state as such a line; only the newest waits.
static void note_state(struct live *v, enum status_state s)
{
    struct status st = status_of(v, s);
    struct buf line = {.max = SIZE_MAX};
    if (v->run->o->quiet) {
        return;
    }
    status_render_line(&st, &line);
    live__note(v, "state", buf_z(&line));
    buf_fini(&line);
}

// ---- offering ------------------------------------------------------------------------------

/// The shell keeps what it has until this can be handed over.
static void fail_offer(struct live *v, int code, const char *why)
{
    free(v->run->failure);
    v->run->failure = xasprintf("cannot hand the environment to the shell: %s", why);
    v->run->failure_code = code;
    timer_start(&v->retry, RETRY_MS);
    if (!v->stuck) {
        v->stuck = true;
        live__failed(v);
    }
}

/// Offer the environment that `run` has now.
static void offer(struct live *v)
{
    struct buf text = {.max = SIZE_MAX};
    struct err e;
    assert(v->run->result != NULL);
    env_session_render(v->merge, v->run->result, v->dialect, &text);
    int rc = offers_env(v->offers, buf_str(&text), &v->offer_id, &e);
    buf_fini(&text);
    if (rc < 0) {
        fail_offer(v, rc, e.msg);
        return;
    }
    if (v->stuck) { // it could not be handed over before
        v->stuck = false;
        free(v->run->failure);
        v->run->failure = NULL;
        live__show(v, STATUS_READY);
        note_state(v, STATUS_RELOADED);
    }
    v->offered = v->run->result->generation;
    session_poke(v->session);
}

static void on_retry(void *arg)
{
    offer(arg);
}

int live__offer_task(struct live *v, const char *name, bool force, struct err *e)
{
    uint64_t id;
    struct buf text = {.max = SIZE_MAX};
    const struct env_result *r = v->run->built;
    size_t i = 0;
    while (r != NULL && i < r->tasks.n && strcmp(r->tasks.p[i].name, name) != 0) {
        i++;
    }
    if (r == NULL || i == r->tasks.n) { // the newest environment no longer has it
        return err_set(e, ERR_NOT_FOUND, "there is no task '%s'", name);
    }
    task_text(&r->tasks.p[i], v->dialect, force, &text);
    int rc = offers_task(v->offers, name, buf_str(&text), &id, e);
    buf_fini(&text);
    return rc;
}

void live__take_exports(struct live *v, const struct env_tasks_end *end)
{
    if (end->n_exports != 0) {
        run__add_exports(v->run, end);
        run__settle_result(v->run);
        offer(v);
    }
}

static void on_acked(uint64_t id, int status, void *arg)
{
    struct live *v = arg;
    if (id != v->offer_id) {
        return; // a task or a note: the shell has shown the result
    }
    v->offer_id = 0;
    if (status != 0 && v->damaged++ < DAMAGED_MAX) {
        offer(v);
        return;
    }
    v->damaged = 0;
    bool first = v->applied == 0;
    v->applied = v->offered;
    report_applied(v->run->report, v->applied);
    env_session_applied(v->merge, v->offered);
    if (v->state == STATUS_READY || v->state == STATUS_RELOADING) {
        live__show(v, STATUS_RELOADED);
        timer_start(&v->calm, CALM_MS);
    } else if (first) {
        show_rest(v);
    }
}

void live__reload(struct live *v, bool force)
{
    // what failed may succeed now although no input has changed: after `git add`, or with a network
    force |= env_coord_get_state(v->run->coord) == ENV_FAILED;
    env_coord_reload(v->run->coord, force);
    v->by_key = true;
}

static void on_asked(void *arg)
{
    live__reload(arg, false);
}

// ---- messages of the coordinator -----------------------------------------------------------

void live__building(struct live *v)
{
    live__show(v, STATUS_BUILDING);
    note_state(v, STATUS_BUILDING);
}

void live__ready(struct live *v)
{
    struct env_result *r = v->run->built;
    for (size_t i = 0; i < r->messages.n; i++) {
        live__note(v, NULL, r->messages.p[i]);
    }
    timer_stop(&v->retry);
    v->stuck = false;
    live__show(v, v->by_key ? STATUS_RELOADING : STATUS_READY);
    v->by_key = false;
    offer(v);
    if (!v->stuck) {
        note_state(v, STATUS_RELOADED); // it is shown once the shell has taken it
    }
    live__watch_tasks(v, true);
    live__answer_waiting(v);
}

void live__failed(struct live *v)
{
    struct buf line = {.max = SIZE_MAX};
    v->by_key = false;
    live__show(v, STATUS_FAILED);
    buf_addz(&line,
             "afloat: the environment failed, the old one stays; 'afloat env error' says why");
    if (!v->stuck && v->run->failure_code != ERR_DENIED) {
        status_render_hint(key_of(), "try again", &line);
    }
    live__note(v, "state", buf_z(&line));
    buf_fini(&line);
    live__answer_waiting(v);
}

void live__unchanged(struct live *v)
{
    v->by_key = false;
    live__answer_waiting(v);
}

// ---- the start -----------------------------------------------------------------------------

static void on_session_exit(struct session *s, int code, const char *why, void *arg)
{
    struct live *v = arg;
    (void)s;
    v->code = code;
    v->over = true;
    if (why != NULL) {
        visible_say("afloat: %s", why);
    }
}

static void on_session_resize(struct session *s, void *arg)
{
    struct live *v = arg;
    (void)s;
    live__show(v, v->state);
}

static int open_session(struct live *v, struct arena *a, const struct rc_start *start,
                        struct err *e)
{
    const char *tty = ttyname(STDIN_FILENO); // NOLINT(concurrency-mt-unsafe): one thread asks
    vec(const char *) more = {0};
    vec_push(&more, arena_printf(a, "AFLOAT_RELOAD_FILE=%s/pending", v->dir.path));
    vec_push(&more, arena_printf(a, "AFLOAT_RELOAD_KEYBIND=%s", key_of()));
    vec_push(&more, arena_printf(a, "AFLOAT_TTY=%s", tty != NULL ? tty : ""));
    for (const char **it = start->env; *it != NULL; it++) {
        vec_push(&more, *it);
    }
    vec_push(&more, NULL);
    char **env = run__environ(v->run, more.p);
    const struct session_opts o = {.loop = &v->run->loop,
                                   .argv = start->argv,
                                   .env = (const char *const *)env,
                                   .cwd = v->run->o->cwd,
                                   .terminal_in = STDIN_FILENO,
                                   .terminal_out = STDOUT_FILENO,
                                   .status = v->run->o->status,
                                   .on_resize = on_session_resize,
                                   .on_exit = on_session_exit,
                                   .arg = v};
    int rc = session_open(&v->session, &o, e);
    free(env);
    vec_fini(&more);
    return rc;
}

/// What the shell finds when it starts: the environment, and the tasks that are its own.
static int offer_first(struct live *v, struct err *e)
{
    struct run *r = v->run;
    struct buf text = {.max = SIZE_MAX};
    if (r->result == NULL) {
        return 0;
    }
    env_session_render(v->merge, r->result, v->dialect, &text);
    int rc = offers_env(v->offers, buf_str(&text), &v->offer_id, e);
    v->offered = r->result->generation;
    buf_fini(&text);
    for (size_t i = 0; rc == 0 && i < r->left.n; i++) {
        rc = live__offer_task(v, r->left.p[i], false, e);
        rc = rc == ERR_NOT_FOUND ? 0 : rc;
    }
    return rc;
}

static int start(struct live *v, struct arena *a, struct err *e)
{
    static const struct offers_cb cb = {.acked = on_acked, .asked = on_asked};
    struct run *r = v->run;
    struct rc_start how;
    int rc = shell_dir_open(&v->dir, r->o->home->runtime, e);
    if (rc < 0) {
        return rc;
    }
    r->report = report_open(&r->loop, r->o->home->socket, v->dir.id, r->project.root, getpid());
    v->offers = offers_open(&r->loop, &v->dir, &cb, v);
    rc = ctl_server_open(&v->ctl, &r->loop, &v->dir, live__on_call, v, e);
    if (rc == 0) {
        rc = rc_prepare(&how, a, v->dir.path, v->program, v->dialect, r->o->marker,
                        (const char *const *)environ, e);
    }
    rc = rc == 0 ? offer_first(v, e) : rc;
    return rc == 0 ? open_session(v, a, &how, e) : rc;
}

static void close_live(struct live *v)
{
    live__end_calls(v);
    live__end_tasks(v);
    timer_stop(&v->calm);
    timer_stop(&v->retry);
    report_close(v->run->report);
    v->run->report = NULL;
    session_close(v->session);
    offers_close(v->offers);
    ctl_server_close(v->ctl);
    env_session_free(v->merge);
    shell_dir_close(&v->dir);
}

int live__run(struct run *r, struct err *e)
{
    struct live v = {.run = r, .state = STATUS_WATCHING, .dir.fd = -1};
    struct arena a = {0};
    v.program = run__shell(r->o, &v.dialect);
    v.merge = env_session_new((const char *const *)environ);
    timer_init(&v.calm, &r->loop, on_calm, &v);
    timer_init(&v.retry, &r->loop, on_retry, &v);
    timer_init(&v.again_timer, &r->loop, live__run_again, &v);
    int rc = start(&v, &a, e);
    if (rc == 0) {
        r->live = &v;
        // the first build was over before there was a session to report it
        if (r->failure != NULL) {
            report_failed(r->report,
                          &(struct env_failed){.code = r->failure_code, .text = r->failure});
        } else if (r->built != NULL) {
            report_ready(r->report, &(struct env_ready){.result = r->built});
        }
        show_rest(&v);
        live__watch_tasks(&v, false); // those of the start have run
    }
    while (rc == 0 && !v.over) {
        loop_run_once(&r->loop, true);
    }
    r->live = NULL;
    close_live(&v);
    arena_fini(&a);
    return rc < 0 ? rc : v.code;
}
