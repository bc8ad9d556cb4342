// `afloat host c`: the far end of the host protocol for plugins in C.
//
//     load ── c_build ── dlopen ── register... ── loaded ── hook, tool, route, ... ── result
//
// The library of the plugin is loaded into this process, which has nothing else to lose: a crash is told by the hub, with
// what c_trace.c writes about it. Hooks, events and the plugin's start and end run in the main thread, one after another.
// Tools, routes, commands and prompt sections run in threads of their own, so that a slow one holds up no other.

#include "host/c_plugin.h"

#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/time.h"
#include "hook/points.h"
#include "host/c_far.h"
#include "host/c_int.h"
#include "host/validate.h"
#include "proto/host.h"

enum { READ_SIZE = 64 * 1024, TIMER_MIN_MS = 10 };

// ---- running --------------------------------------------------------------------------------

/// The call has run: tell its asker, and let it go.
static void finish(struct afloat_call *c)
{
    struct err e = {0};
    struct buf line;
    struct jw w;
    if (c_call_check(c, &e) < 0) {
        c_send_error(c->id, e.msg);
    } else if (c->id != 0) {
        c_begin(&w, &line, "result", c->id);
        jw_key(&w, "value");
        jw_raw(&w, buf_str(&c->answer));
        if (c->state_changed) {
            jw_key(&w, "state");
            jw_raw(&w, str_of(c_call_json(c, "ctx.state")));
        }
        if (c->memory_changed) {
            jw_key(&w, "memory");
            jw_raw(&w, str_of(c_call_json(c, "ctx.memory")));
        }
        c_send(&w, &line);
    }
    c_call_free(c);
}

struct job {
    struct afloat_call *call;
    afloat_fn *run;
};

static void *run_job(void *arg)
{
    struct job *j = arg;
    int64_t id = j->call->id;
    j->run(j->call);
    c_over(id);
    finish(j->call);
    free(j);
    return NULL;
}

static void run_here(struct afloat_call *c, afloat_fn *run)
{
    assert(run != NULL && pthread_equal(pthread_self(), far.main));
    run(c);
    finish(c);
}

static void run_apart(struct afloat_call *c, afloat_fn *run)
{
    assert(run != NULL && c->id != 0);
    pthread_t thread;
    struct job *j = xcalloc(1, sizeof *j);
    *j = (struct job){c, run};
    if (far.wake == 0) { // from here on a thread may have something for us while we wait
        far.wake = MAX(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), 0);
    }
    c_running(c->id);
    if (pthread_create(&thread, NULL, run_job, j) != 0) {
        run_job(j);
        return;
    }
    pthread_detach(thread);
}

// ---- timers ---------------------------------------------------------------------------------

static uint64_t now_ms(void)
{
    return (uint64_t)(time_mono_ns() / 1000000);
}

void c_timers_changed(void)
{
    if (far.serving && !pthread_equal(pthread_self(), far.main)) {
        c_wake();
    }
}

/// Run the timers that are due. Returns how long until the next one; negative: there is none.
static int run_timers(void)
{
    uint64_t next = UINT64_MAX;
    size_t at = 0;
    for (struct c_entry *n; far.serving && (n = c_entry_next("timer", &at)) != NULL;) {
        const struct afloat_timer *t = n->data;
        uint64_t now = now_ms(), every = MAX(t->every_ms, TIMER_MIN_MS);
        if (n->due != 0 && n->due <= now) {
            n->due = now + every;
            run_here(c_call_new(0), t->run);
        } else if (n->due == 0) {
            n->due = now + every;
        }
        next = MIN(next, n->due);
    }
    uint64_t now = now_ms();
    return next == UINT64_MAX ? -1 : next <= now ? 0 : (int)MIN(next - now, (uint64_t)INT32_MAX);
}

// ---- messages -------------------------------------------------------------------------------

static struct afloat_call *new_call(const struct json *m)
{
    struct afloat_call *c = c_call_new(json_int(json_get(m, "id"), 0));
    c_call_arg(c, "ctx", json_get(m, "ctx"));
    return c;
}

static void on_hook(const struct json *m)
{
    const struct json *handler = json_get(m, "handler"); // a hub need not say which
    const struct c_entry *n = handler != NULL ? c_entry_at(json_int(handler, 0))
                                              : c_entry_find("hook", json_get_text(m, "point"));
    const struct hook_point *p = n != NULL ? hook_point_find(str_of(n->name)) : NULL;
    if (p == NULL) {
        c_send_error(json_int(json_get(m, "id"), 0), "there is no such handler");
        return;
    }
    struct afloat_call *c = new_call(m);
    for (size_t i = 0; i < HOOK_ARGS && p->args[i] != HOOK_SHAPE_NONE; i++) {
        c->last = hook_shape_names[p->args[i]];
        c_call_arg(c, c->last, json_at(json_get(m, "args"), i));
    }
    run_here(c, c_entry_run(n));
}

/// The route that takes a request of a hub that does not name it; NULL: none does.
static const struct c_entry *route_of(const struct json *m)
{
    const struct c_entry *n, *found = NULL;
    for (size_t at = 0; found == NULL && (n = c_entry_next("route", &at)) != NULL;) {
        struct str pattern = str_of(n->name), path = json_get_text(m, "path");
        bool fits = str_eq(str_cut(&pattern, ' '), json_get_text(m, "method"));
        while (fits && (pattern.n != 0 || path.n != 0)) {
            struct str part = str_cut(&pattern, '/'), given = str_cut(&path, '/');
            fits = str_eq(part, given) || (str_starts(part, ":") && given.n != 0);
        }
        found = fits ? n : NULL;
    }
    return found;
}

/// A call by name, in a thread of its own. Its arguments are members of the message.
static void on_offer(const struct json *m)
{
    static const struct {
        const char *kind, *args[2];
    } offers[] = {{"tool", {"input"}},
                  {"command", {"args"}},
                  {"prompt", {NULL}},
                  {"route", {NULL}},
                  {"provider", {"request"}},
                  {"mcp_prompt", {"arguments"}},
                  {"mcp_resource", {"uri", "params"}}};
    struct str kind = json_str(json_get(m, "type"), "");
    size_t at = 0;
    while (!str_eqz(kind, offers[at].kind)) {
        at++;
        assert(at < ARRAY_LEN(offers));
    }
    bool named = json_get(m, "name") != NULL || !str_eqz(kind, "route");
    const struct c_entry *n =
        named ? c_entry_find(offers[at].kind, json_get_text(m, "name")) : route_of(m);
    struct afloat_call *c = new_call(m);
    for (size_t i = 0; i < ARRAY_LEN(offers[at].args) && offers[at].args[i] != NULL; i++) {
        c_call_arg(c, offers[at].args[i], json_get(m, offers[at].args[i]));
    }
    if (str_eqz(kind, "route")) {
        c_call_arg(c, "req", m);
    }
    if (n == NULL) {
        c_call_fail(c, "there is no %s '" STR_FMT "'", offers[at].kind,
                    STR_ARG(json_str(json_get(m, "name"), "")));
        finish(c);
    } else {
        run_apart(c, c_entry_run(n));
    }
}

static void run_event(afloat_fn *run, const struct json *data)
{
    struct afloat_call *c = c_call_new(0);
    c_call_arg(c, "event", data);
    run_here(c, run);
}

static void on_event(const struct json *m)
{
    struct str name = json_str(json_get(m, "name"), "");
    const struct json *data = json_get(m, "data");
    if (str_starts(name, "on_")) {
        on_hook(data);
        return;
    }
    if (str_eqz(name, "plugin_start")) {
        afloat_fn *start = c_exported("plugin_start");
        const struct json *state = json_get(data, "state");
        far.state = state != NULL ? json_clone(&far.arena, state) : far.state;
        far.serving = true;
        if (start != NULL) {
            run_event(start, data);
        }
    }
    size_t at = 0;
    for (const struct c_entry *n; (n = c_entry_next("event", &at)) != NULL;) {
        if (str_glob(str_of(n->name), name)) {
            run_event(c_entry_run(n), data);
        }
    }
}

static void on_watch(const struct json *m)
{
    const struct c_entry *n = c_entry_at(json_int(json_get(m, "ref"), 0));
    if (n != NULL && !n->off) {
        run_event(c_entry_run(n), m);
    }
}

static void on_shutdown(const struct json *m)
{
    afloat_fn *stop = c_exported("plugin_shutdown");
    far.serving = false;
    far.leaving = true;
    struct afloat_call *c = c_call_new(json_int(json_get(m, "id"), 0));
    bool has_id = c->id != 0;
    c_call_arg(c, "event", m);
    if (stop != NULL) {
        run_here(c, stop);
    } else {
        finish(c);
    }
    if (!has_id) { // it need not have one: it is answered without
        struct jw w;
        struct buf line;
        c_begin(&w, &line, "result", 0);
        c_send(&w, &line);
    }
}

static void on_cancel(const struct json *m)
{
    c_over(json_int(json_get(m, "id"), 0)); // emit() says so; else it answers when it ends
}

// ---- loading --------------------------------------------------------------------------------

static const struct afloat_host host = {
    .size = sizeof host,
    .text = c_call_text,
    .json = c_call_json,
    .integer = c_call_int,
    .set = c_call_set,
    .set_text = c_call_set_text,
    .answer_text = c_call_answer_text,
    .answer_json = c_call_answer_json,
    .fail = c_call_fail,
    .log = c_log,
    .progress = c_progress,
    .ask = c_ask,
    .try_it = c_try,
    .emit = c_emit,
    .emit_text = c_emit_text,
    .add = c_add,
    .find = c_find,
    .off = c_off,
};

static int open_library(const char *path, struct err *e)
{
    static struct afloat_plugin mine; // members that the plugin was compiled without are empty
    far.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (far.library == NULL) {
        return err_set(e, ERR_INVALID, "%s", dlerror());
    }
    const struct afloat_plugin *given = dlsym(far.library, "afloat_plugin");
    const struct afloat_host **theirs = dlsym(far.library, "afloat");
    if (given == NULL || theirs == NULL) {
        return err_set(e, ERR_INVALID, "there is no AFLOAT_PLUGIN(...) in it");
    }
    *theirs = &host;
    memcpy(&mine, given, MIN(given->size, sizeof mine));
    far.plugin = &mine;
    return 0;
}

/// Beyond what is mapped now, which a sanitizer makes a lot.
static void limit_memory(void)
{
    const char *said = getenv("AFLOAT_HOST_MEMORY_MB");
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f != NULL && fscanf(f, "%lu", &pages) == 1 && said != NULL) {
        rlim_t bytes = ((rlim_t)strtoul(said, NULL, 10) << 20) + (rlim_t)pages * 4096;
        setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
    }
    if (f != NULL) {
        fclose(f);
    }
}

bool c_load(const struct json *m, struct c_fault *fault)
{
    struct buf warnings = {.max = 64 * 1024};
    struct err e = {0};
    far.state = json_clone(&far.arena, json_get(m, "state"));
    if (far.state == NULL) {
        far.state = arena_calloc(&far.arena, 1, sizeof *far.state);
        far.state->type = JSON_OBJ;
    }
    char *path = c_build(m, &warnings, fault);
    if (path != NULL && warnings.n != 0) {
        c_log("warn", STR_FMT, STR_ARG(str_trim(buf_str(&warnings))));
    }
    bool ok = path != NULL;
    if (ok) {
        limit_memory();
        c_trace_crashes(path);
        ok = open_library(path, &e) == 0 && c_register_all(&e) == 0;
        fault->message = ok ? NULL : xstrdup(e.msg);
    }
    free(path);
    buf_fini(&warnings);
    return ok;
}

void c_write_metadata(struct jw *w, struct str name)
{
    const struct afloat_plugin *p = far.plugin;
    jw_kobj(w, "metadata");
    jw_kstrz(w, "api", p->api != NULL ? p->api : "1.0");
    if (p->name != NULL) {
        jw_kstrz(w, "name", p->name);
    } else {
        jw_kstr(w, "name", name);
    }
    if (p->description != NULL) {
        jw_kstrz(w, "description", p->description);
    }
    jw_end_obj(w);
}

static void on_load(const struct json *m)
{
    struct c_fault fault = {0};
    struct buf line;
    struct jw w;
    if (far.loaded) {
        c_send_error(0, "it was loaded already");
        return;
    }
    bool ok = c_load(m, &fault);
    c_begin(&w, &line, ok ? "loaded" : "failed", 0);
    if (ok) {
        far.loaded = true;
        c_write_metadata(&w, json_str(json_get(m, "name"), ""));
    } else {
        jw_kstrz(&w, "message", fault.message);
        jw_kstr(&w, "path",
                fault.path != NULL ? str_of(fault.path) : json_str(json_get(m, "path"), ""));
        jw_kint(&w, "line", fault.line);
    }
    c_send(&w, &line);
    c_fault_fini(&fault);
}

// ---- the loop -------------------------------------------------------------------------------

static void dispatch(char *line)
{
    static const struct {
        const char *type;
        void (*fn)(const struct json *m);
    } handlers[] = {{"hook", on_hook},        {"tool", on_offer},         {"route", on_offer},
                    {"command", on_offer},    {"prompt", on_offer},       {"provider", on_offer},
                    {"mcp_prompt", on_offer}, {"mcp_resource", on_offer}, {"event", on_event},
                    {"watch", on_watch},      {"cancel", on_cancel},      {"shutdown", on_shutdown},
                    {"load", on_load}};
    struct arena a = {0};
    struct json *m = NULL;
    bool known = json_parse(&m, &a, str_of(line), NULL, NULL) < 0 || c_take_answer(m);
    for (size_t i = 0; i < ARRAY_LEN(handlers) && !known; i++) {
        if (str_eqz(json_str(json_get(m, "type"), ""), handlers[i].type)) {
            known = true;
            handlers[i].fn(m);
        }
    }
    if (!known) {
        c_send_error(json_int(json_get(m, "id"), 0), "unknown message");
    }
    arena_fini(&a);
    free(line);
}

int host_c_main(bool validating)
{
    signal(SIGPIPE, SIG_IGN);
    far.validating = validating;
    far.main = pthread_self();
    pthread_mutex_init(&far.lock, NULL);
    pthread_cond_init(&far.answered, NULL);
    buf_init(&far.held, SIZE_MAX);
    buf_init(&far.in, HOST_LINE_MAX + 2 * READ_SIZE);
    if (!validating && fcntl(HOST_FD, F_GETFD) < 0) {
        fputs("afloat host is started by the hub, not by hand\n", stderr);
        return 2;
    }
    if (validating) {
        return host_answer_request(c_validate);
    }
    (void)fcntl(HOST_FD, F_SETFD, FD_CLOEXEC);
    for (;;) {
        while (far.backlog.n != 0) {
            char *line = far.backlog.p[0];
            vec_remove(&far.backlog, 0);
            dispatch(line);
        }
        int ms = run_timers();
        if ((ms < 0 && far.wake == 0) || c_wait_line(ms)) { // else reading waits by itself
            dispatch(c_read_line());
        }
    }
}
