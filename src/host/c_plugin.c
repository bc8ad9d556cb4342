// `afloat host c`: the far end of the host protocol for plugins in C.
//
//     load ── c_build ── dlopen ── register... ── loaded ── hook, tool, route, ... ── result
//
// The library of the plugin is loaded into this process, which has nothing else to lose: a crash is told by the hub, with
// what c_trace.c writes about it. Hooks, events and the plugin's start and end run in the main thread, one after another.
// Tools, routes, commands and prompt sections run in threads of their own, so that a slow one holds up nobody.

#include "host/c_plugin.h"

#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "host/c_far.h"
#include "host/c_int.h"
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
    run(c);
    finish(c);
}

static void run_apart(struct afloat_call *c, afloat_fn *run)
{
    pthread_t thread;
    struct job *j = xcalloc(1, sizeof *j);
    *j = (struct job){c, run};
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

static void begin_timers(void)
{
    const struct afloat_timer *t = far.plugin->timers;
    far.serving = true;
    for (; far.due.n == 0 && t != NULL && t->name != NULL; t++) {
        vec_push(&far.due, now_ms() + MAX(t->every_ms, TIMER_MIN_MS));
    }
}

/// How long until the next timer; negative: there is none.
static int next_timer_ms(void)
{
    uint64_t now = now_ms(), next = UINT64_MAX;
    vec_foreach (due, &far.due) {
        next = MIN(next, *due);
    }
    return !far.serving || next == UINT64_MAX ? -1
           : next <= now                      ? 0
                                              : (int)MIN(next - now, (uint64_t)INT32_MAX);
}

static void run_timers(void)
{
    for (size_t i = 0; far.serving && i < far.due.n; i++) {
        const struct afloat_timer *t = &far.plugin->timers[i];
        if (far.due.p[i] <= now_ms()) {
            far.due.p[i] = now_ms() + MAX(t->every_ms, TIMER_MIN_MS);
            run_here(c_call_new(0), t->run);
        }
    }
}

static struct afloat_call *new_call(const struct json *m)
{
    struct afloat_call *c = c_call_new(json_int(json_get(m, "id"), 0));
    c_call_arg(c, "ctx", json_get(m, "ctx"));
    c->last = NULL;
    return c;
}

static void on_hook(const struct json *m)
{
    int64_t number = json_int(json_get(m, "handler"), 0);
    if (number < 1 || (size_t)number > far.hooks.n) {
        c_send_error(json_int(json_get(m, "id"), 0), "there is no such handler");
        return;
    }
    const struct hook *h = &far.hooks.p[number - 1];
    struct afloat_call *c = new_call(m);
    size_t at = 0;
    while (strcmp(c_points[at].name, h->point) != 0) {
        at++;
    }
    for (size_t i = 0; i < ARRAY_LEN(c_points[at].args) && c_points[at].args[i] != NULL; i++) {
        c_call_arg(c, c_points[at].args[i], json_at(json_get(m, "args"), i));
    }
    run_here(c, h->run);
}

static void on_tool(const struct json *m)
{
    const struct afloat_tool *t = C_FIND(tools, json_str(json_get(m, "name"), ""));
    struct afloat_call *c = new_call(m);
    assert(t != NULL); // the hub knows what was registered
    c_call_arg(c, "input", json_get(m, "input"));
    run_apart(c, t->run);
}

static void on_command(const struct json *m)
{
    const struct afloat_command *t = C_FIND(commands, json_str(json_get(m, "name"), ""));
    struct afloat_call *c = new_call(m);
    assert(t != NULL);
    c_call_arg(c, "args", json_get(m, "args"));
    run_apart(c, t->run);
}

static void on_prompt(const struct json *m)
{
    const struct afloat_prompt *t = C_FIND(prompts, json_str(json_get(m, "name"), ""));
    assert(t != NULL);
    run_apart(new_call(m), t->run);
}

static void on_route(const struct json *m)
{
    struct str name = json_str(json_get(m, "name"), "");
    struct afloat_call *c = new_call(m);
    c_call_arg(c, "req", m);
    for (const struct afloat_route *r = far.plugin->routes; r->method != NULL; r++) {
        char *title = xasprintf("%s %s", r->method, r->path);
        bool same = str_eqz(name, title);
        free(title);
        if (same) {
            run_apart(c, r->run);
            return;
        }
    }
    c_call_fail(c, "there is no such route");
    finish(c);
}

static void on_event(const struct json *m)
{
    struct str name = json_str(json_get(m, "name"), "");
    const struct json *data = json_get(m, "data");
    afloat_fn *start = str_eqz(name, "plugin_start") ? c_exported("plugin_start") : NULL;
    if (str_starts(name, "on_")) {
        on_hook(data);
        return;
    }
    if (str_eqz(name, "plugin_start") && json_get(data, "state") != NULL) {
        far.state = json_clone(&far.arena, json_get(data, "state"));
    }
    if (str_eqz(name, "plugin_start")) {
        begin_timers();
    }
    const struct afloat_event *e = far.plugin->events;
    for (; start != NULL || (e != NULL && e->name != NULL); e = start != NULL ? NULL : e + 1) {
        if (start != NULL || str_glob(str_of(e->name), name)) {
            struct afloat_call *c = c_call_new(0);
            c_call_arg(c, "event", data);
            run_here(c, start != NULL ? start : e->run);
        }
        start = NULL;
    }
}

static void on_shutdown(const struct json *m)
{
    afloat_fn *stop = c_exported("plugin_shutdown");
    far.serving = false;
    struct afloat_call *c = c_call_new(json_int(json_get(m, "id"), 0));
    c_call_arg(c, "event", m);
    if (stop != NULL) {
        run_here(c, stop);
    } else {
        finish(c);
    }
}

static void on_provider(const struct json *m)
{
    const struct afloat_provider *p = C_FIND(providers, json_str(json_get(m, "name"), ""));
    struct afloat_call *c = new_call(m);
    assert(p != NULL);
    c_call_arg(c, "request", json_get(m, "request"));
    c->last = NULL;
    run_apart(c, p->run);
}

static void on_mcp_prompt(const struct json *m)
{
    const struct afloat_mcp_prompt *p = C_FIND(mcp_prompts, json_str(json_get(m, "name"), ""));
    struct afloat_call *c = new_call(m);
    assert(p != NULL);
    c_call_arg(c, "arguments", json_get(m, "arguments"));
    c->last = NULL;
    run_apart(c, p->run);
}

static void on_mcp_resource(const struct json *m)
{
    const struct afloat_mcp_resource *r = C_FIND(mcp_resources, json_str(json_get(m, "name"), ""));
    struct afloat_call *c = new_call(m);
    assert(r != NULL);
    c_call_arg(c, "uri", json_get(m, "uri"));
    c_call_arg(c, "params", json_get(m, "params"));
    c->last = NULL;
    run_apart(c, r->run);
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
};

/// Members that the plugin was compiled without are empty.
static const struct afloat_plugin *take_plugin(const struct afloat_plugin *given)
{
    static struct afloat_plugin mine;
    memcpy(&mine, given, MIN(given->size, sizeof mine));
    return &mine;
}

static int open_library(const char *path, struct err *e)
{
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
    far.plugin = take_plugin(given);
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
    struct buf warnings;
    struct err e = {0};
    buf_init(&warnings, 64 * 1024);
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
        ok = open_library(path, &e) == 0 && c_register_all(&e);
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
    } handlers[] = {{"hook", on_hook},
                    {"tool", on_tool},
                    {"route", on_route},
                    {"command", on_command},
                    {"prompt", on_prompt},
                    {"event", on_event},
                    {"cancel", on_cancel},
                    {"shutdown", on_shutdown},
                    {"load", on_load},
                    {"provider", on_provider},
                    {"mcp_prompt", on_mcp_prompt},
                    {"mcp_resource", on_mcp_resource}};
    struct arena a;
    struct json *m = NULL;
    arena_init(&a);
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

static void set_up(bool validating)
{
    signal(SIGPIPE, SIG_IGN);
    far.validating = validating;
    far.main = pthread_self();
    pthread_mutex_init(&far.lock, NULL);
    pthread_cond_init(&far.answered, NULL);
    buf_init(&far.in, HOST_LINE_MAX + 2 * READ_SIZE);
    arena_init(&far.arena);
}

static _Noreturn void serve(void)
{
    for (;;) {
        while (far.backlog.n != 0) {
            char *line = far.backlog.p[0];
            vec_remove(&far.backlog, 0);
            dispatch(line);
        }
        run_timers();
        int ms = next_timer_ms();
        if (ms < 0 || c_wait_line(ms)) { // without timers reading waits by itself
            dispatch(c_read_line());
        }
    }
}

int host_c_main(bool validating)
{
    set_up(validating);
    if (!validating && fcntl(HOST_FD, F_GETFD) < 0) {
        fputs("afloat host is started by the hub, not by hand\n", stderr);
        return 2;
    }
    if (!validating) {
        (void)fcntl(HOST_FD, F_SETFD, FD_CLOEXEC);
        serve();
    }
    struct buf out;
    struct jw w;
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10),
        null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0) { // what the plugin prints is nobody's
        return 2;
    }
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_obj(&w);
    c_validate(&w);
    jw_end_obj(&w);
    int rc = path_write_fd(fd, buf_str(&out));
    _exit(rc < 0 ? 1 : 0); // nothing to tidy: the process goes
}
