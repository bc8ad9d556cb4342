// Versions of plugins in processes of their own.
//
//     start ── `afloat host LANG PATH`, load ── register... loaded ──> READY ── load(): staged ── keep ── enter
//                                             └ failed, died ──> FAILED ── load(): why
//     leave ── shutdown, answered ── free: the socket is closed, the process goes (host_proc.c)
//
// A process is started while the version before it serves, so loading, however long, is no gap. One that dies
// while it serves is started again by the next run, with the diagnostic kept; the second time within a minute the
// content is left alone until it is another one.
//
// What a plugin keeps in `state` outlives its versions: it is sent to us as it changes, and given to the next
// version when that is loaded and, as it stands by then, when it begins to serve.
//
// Invariants:
//   - a version that is not kept yet changes no state and calls no operation: what is only tried must not act.
//   - `ready` is called once, from the queue, unless the version is freed before.

#include "plugin/hosts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "plugin/host_proc.h"
#include "plugin/host_unit_int.h"

enum {
    LOAD_MS = 10000, // a cold interpreter on a busy machine, a compiler
    CRASH_WINDOW_MS = 60000,
    STATE_VALUE_MAX = 1 << 20,
    STATE_MAX = 16 << 20, // of one plugin
    FILES = 256,
};

enum hosted_state { LOADING, READY, FAILED };

/// A value of `state`, as JSON text.
struct kept {
    char *key, *text;
};

/// What outlives the versions of one plugin.
struct hosted_past {
    vec(struct kept) state;
    size_t bytes;
    char crashed[SHA256_HEX]; // content whose process died last
    uint64_t crashed_at;      // ms
    bool given_up;            // it died too often
    char *crash;              // what it died of; NULL: nothing to tell
};

struct hosted {
    struct plugin_version head;
    struct hosts *owner;
    struct hosted_past *past;
    char *space;
    struct host *host; // NULL: it could not be started
    struct host_unit *offers;
    struct gen_unit *unit; // NULL before it is staged
    enum hosted_state state;
    struct gen_diag fault; // a copy, of FAILED
    bool kept;             // it was committed
    bool left;
    vec(struct kept) early; // state that it set before
    size_t early_bytes;     // at most STATE_MAX
    loop_fn *ready;
    void *ready_arg;
    struct loop_task *task; // that calls ready
    struct host_shutdown shutdown;
    struct arena arena;             // of the metadata
    vec(struct hosts__open *) asks; // not answered
};

/// An ask on its way; `version` is NULL once it is gone.
struct hosts__open {
    struct hosts_ask ask;
    struct hosted *version;
    int64_t id;
    char *unit, *space;
    struct arena arena;
};

struct hosts {
    struct hosts_opts opts;
    struct host_rules rules;
    struct plugin_runner runners[LANG__COUNT];
    struct map pasts; // by namespace
    vec(struct hosted *) serving;
    vec(char *) env;
};

static struct hosted *hosted_of(const struct plugin_version *v)
{
    return (struct hosted *)(uintptr_t)v; // its first member
}

// ---- state that outlives versions ---------------------------------------------------------------

static void kept_free(struct kept k)
{
    free(k.key);
    free(k.text);
}

/// Set or (`text` NULL) clear a value; `text` is taken over. False: too much is kept.
static bool past_set(struct hosted_past *p, const char *key, char *text)
{
    size_t i = 0, more = text != NULL ? strlen(key) + strlen(text) : 0;
    while (i < p->state.n && strcmp(p->state.p[i].key, key) != 0) {
        i++;
    }
    size_t less = i < p->state.n ? strlen(key) + strlen(p->state.p[i].text) : 0;
    assert(p->bytes >= less);
    if (p->bytes - less + more > STATE_MAX) {
        free(text);
        return false;
    }
    p->bytes += more - less;
    if (i < p->state.n) {
        kept_free(p->state.p[i]);
        vec_remove(&p->state, i);
    }
    if (text != NULL) {
        vec_push(&p->state, ((struct kept){xstrdup(key), text}));
    }
    return true;
}

static void write_state(const struct hosted_past *p, struct jw *w)
{
    jw_kobj(w, "state");
    for (size_t i = 0; i < p->state.n; i++) {
        jw_key(w, p->state.p[i].key);
        jw_raw(w, str_of(p->state.p[i].text));
    }
    jw_end_obj(w);
}

static void on_state(void *arg, struct str key, const struct json *value)
{
    struct hosted *v = arg;
    struct buf text = {.max = STATE_VALUE_MAX};
    char *name = str_dup(key), *json = NULL;
    size_t text_n = 0;
    if (value != NULL && value->type != JSON_NULL) {
        json_write(&text, value, 0);
        json = buf_ok(&text) ? buf_take(&text, &text_n) : NULL;
    }
    bool fits = value == NULL || value->type == JSON_NULL || json != NULL;
    if (fits && v->kept) {
        fits = past_set(v->past, name, json);
    } else if (fits && v->early_bytes + key.n + text_n > STATE_MAX) {
        fits = false;
        free(json);
    } else if (fits) {
        v->early_bytes += key.n + text_n;
        vec_push(&v->early, ((struct kept){name, json}));
        name = NULL;
    }
    if (!fits) {
        v->owner->opts.log(v->owner->opts.arg, v->head.code->unit, LOG_ERROR,
                           STR("state: a value is larger than 1 MiB, or all of them than 16 MiB; "
                               "it is not kept for the next version"));
    }
    free(name);
    buf_fini(&text);
}

// ---- it is ready, or not -------------------------------------------------------------------------

static void tell_ready(void *arg)
{
    struct hosted *v = arg;
    v->task = NULL;
    v->ready(v->ready_arg);
}

static void settle(struct hosted *v, enum hosted_state state)
{
    bool first = v->state == LOADING;
    v->state = state;
    if (first) {
        assert(v->task == NULL);
        v->task = loop_defer(v->owner->opts.loop, tell_ready, v);
    }
}

static void fail(struct hosted *v, const struct host_fault *f)
{
    if (v->state != FAILED) {
        struct gen_diag d = host_diag(f, v->head.code->path);
        d.origin = v->head.code->shape->origin;
        gen_diag_fini(&v->fault);
        v->fault = gen_diag_copy(&d);
    }
    settle(v, FAILED);
}

/// What cannot be registered is told with its place in the plugin: while it loads, its loading fails for that;
/// later it is the plugin's mistake, and no reason to end it.
static void refuse(struct hosted *v, const struct json *what, enum gen_code code,
                   const struct err *e)
{
    char *file = str_dup(json_str(json_get(what, "file"), v->head.code->path));
    const struct gen_diag d = {.code = code,
                               .origin = v->head.code->shape->origin,
                               .path = file,
                               .line = host_line(what),
                               .message = e->msg};
    if (code == DIAG_LOAD_FAILED) {
        v->fault = gen_diag_copy(&d);
    } else {
        gen_unit_note(v->unit, &d);
    }
    free(file);
}

static int on_register(void *arg, const struct json *what, struct err *e)
{
    struct hosted *v = arg;
    int rc = host_unit_register(v->offers, what, e);
    if (rc < 0 && v->fault.message == NULL) {
        refuse(v, what, DIAG_LOAD_FAILED, e);
    }
    return rc;
}

static int on_add(void *arg, const struct json *what, struct err *e)
{
    struct hosted *v = arg;
    int rc = host_unit_add(v->offers, what, e);
    if (rc < 0 && v->unit != NULL) {
        refuse(v, what, rc == ERR_CONFLICT ? DIAG_STALE_HANDLE : DIAG_HOOK_FAILED, e);
    }
    return rc;
}

static int on_unregister(void *arg, int64_t ref, struct err *e)
{
    struct hosted *v = arg;
    return host_unit_off(v->offers, ref, e);
}

static void on_loaded(void *arg, const struct json *metadata)
{
    struct hosted *v = arg;
    struct err e = {0};
    const struct json *api = json_get(metadata, "api");
    if (metadata != NULL && metadata->type == JSON_OBJ && metadata->n != 0) {
        v->head.metadata = json_clone(&v->arena, metadata);
    }
    if (api != NULL && plugin_api_check(json_str(api, "?"), &e) < 0) {
        fail(v, &(struct host_fault){.code = DIAG_API_INCOMPATIBLE, .message = e.msg});
    } else {
        settle(v, v->fault.message != NULL ? FAILED : READY);
    }
}

static void on_failed(void *arg, const struct host_fault *f)
{
    fail(arg, f);
}

/// What serves has died. Its callers were told; a run starts it again.
static void on_end(void *arg, const struct host_fault *f)
{
    struct hosted *v = arg;
    struct hosted_past *p = v->past;
    if (!v->kept) {
        fail(v, f);
    }
    if (!v->kept || v->left) {
        return;
    }
    uint64_t now = loop_now(v->owner->opts.loop);
    const char *hash = v->head.code->tree->hash;
    p->given_up = strcmp(p->crashed, hash) == 0 && now - p->crashed_at < CRASH_WINDOW_MS;
    p->crashed_at = now;
    memcpy(p->crashed, hash, sizeof p->crashed);
    free(p->crash);
    p->crash = xasprintf("%s%s", f->message,
                         p->given_up ? "; it died twice within a minute and is left alone" : "");
    v->owner->opts.log(v->owner->opts.arg, v->head.code->unit, LOG_ERROR, str_of(f->message));
    v->owner->opts.died(v->owner->opts.arg);
}

static void on_log(void *arg, enum log_level level, struct str text)
{
    struct hosted *v = arg;
    v->owner->opts.log(v->owner->opts.arg, v->head.code->unit, level, text);
}

static void on_fault(void *arg, const struct host_fault *fault)
{
    struct hosted *v = arg;
    if (fault->hook == NULL) { // a complaint of the host itself
        on_log(v, LOG_ERROR, str_of(fault->message));
    } else if (v->unit != NULL) {
        host__note(v->unit, fault->hook, fault); // its log has it already, with the traceback
    }
}

// ---- what it asks ---------------------------------------------------------------------------------

static void on_call(void *arg, int64_t id, struct str op, const struct json *params)
{
    struct hosted *v = arg;
    assert(v->host != NULL);
    if (!v->kept) {
        host_answer(v->host, id, ERR_DENIED, STR("not before it serves"));
        return;
    }
    struct hosts__open *o = xcalloc(1, sizeof *o);
    o->version = v;
    o->id = id;
    o->unit = xstrdup(v->head.code->unit);
    o->space = xstrdup(v->space);
    o->ask = (struct hosts_ask){.unit = o->unit,
                                .space = o->space,
                                .code = v->head.code,
                                .op = arena_str(&o->arena, op),
                                .params = params != NULL ? json_clone(&o->arena, params) : NULL};
    vec_push(&v->asks, o);
    v->owner->opts.ask(v->owner->opts.arg, &o->ask);
}

void hosts_answer(struct hosts_ask *a, int status, struct str text)
{
    struct hosts__open *o = container_of(a, struct hosts__open, ask);
    struct hosted *v = o->version;
    if (v != NULL) {
        host_answer(v->host, o->id, status, text);
        vec_drop(&v->asks, o);
    }
    arena_fini(&o->arena);
    free(o->unit);
    free(o->space);
    free(o);
}

// ---- starting -------------------------------------------------------------------------------------

static const struct host_owner host_owner = {
    .on_register = on_register,
    .on_add = on_add,
    .on_unregister = on_unregister,
    .on_loaded = on_loaded,
    .on_failed = on_failed,
    .on_log = on_log,
    .on_fault = on_fault,
    .on_call = on_call,
    .on_state = on_state,
    .on_end = on_end,
};

/// The members of `load`. The files travel with it: what runs is what was hashed.
static void write_load(const struct hosted *v, struct buf *out)
{
    const struct plugin_code *c = v->head.code;
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "path", c->path);
    jw_kstrz(&w, "name", c->name);
    jw_kstrz(&w, "api", MANIFEST_API);
    jw_kstrz(&w, "server", c->shape->server);
    jw_kbool(&w, "single", c->tree->is_file);
    jw_key(&w, "options");
    if (c->options != NULL) {
        jw_value(&w, c->options);
    } else {
        jw_raw(&w, STR("{}"));
    }
    write_state(v->past, &w);
    jw_kobj(&w, "files");
    for (size_t i = 0; i < c->tree->files.n; i++) {
        const struct tree_file *f = &c->tree->files.p[i];
        if (plugin_lang_reads(c->shape->lang, str_of(f->path))) {
            jw_key(&w, f->path);
            jw_str(&w, f->bytes);
        }
    }
    jw_end_obj(&w);
    jw_end_obj(&w);
}

static int spawn(struct hosted *v, struct err *e)
{
    struct hosts *hs = v->owner;
    const struct plugin_code *c = v->head.code;
    const char *lang = plugin_lang_name(c->shape->lang);
    struct buf load = {.max = SIZE_MAX};
    write_load(v, &load);
    char *memory = xasprintf("AFLOAT_HOST_MEMORY_MB=%u", *hs->opts.memory_mb);
    vec(const char *) env = {0};
    vec_foreach (one, &hs->env) {
        vec_push(&env, *one);
    }
    vec_push(&env, memory);
    vec_push(&env, NULL);
    const char *const argv[] = {hs->opts.program, "host", lang, c->path, NULL};
    const struct host_proc_opts opts = {
        .name = c->unit,
        .argv = argv,
        .env = env.p,
        .load = {load.p + 1, load.n - 2},
        .load_ms = LOAD_MS,
        .file_limit = FILES,
    };
    int rc = host_proc_open(&v->host, hs->opts.loop, &opts, &host_owner, v, e);
    vec_fini(&env);
    free(memory);
    buf_fini(&load);
    return rc;
}

static struct plugin_version *hosted_start(void *arg, const struct plugin_code *code,
                                           loop_fn *ready, void *ready_arg)
{
    struct plugin_runner *r = arg;
    struct hosts *hs = container_of(r - code->shape->lang, struct hosts, runners[0]);
    struct hosted *v = xcalloc(1, sizeof *v);
    struct err e = {0};
    *v = (struct hosted){.head = {.runner = r, .code = code},
                         .owner = hs,
                         .space = plugin_namespace(code),
                         .ready = ready,
                         .ready_arg = ready_arg};
    v->past = map_get(&hs->pasts, str_of(v->space));
    if (v->past == NULL) {
        v->past = xcalloc(1, sizeof *v->past);
        map_set(&hs->pasts, str_of(v->space), v->past);
    }
    v->offers = host_unit_new(&hs->rules);
    if (v->past->given_up && strcmp(v->past->crashed, code->tree->hash) == 0) {
        fail(v, &(struct host_fault){.code = DIAG_HOST_CRASHED, .message = v->past->crash});
        v->past->given_up = false; // who asks again, by force, gets another try
    } else if (spawn(v, &e) < 0) {
        fail(v, &(struct host_fault){.code = DIAG_HOST_CRASHED, .message = e.msg});
    } else {
        host_unit_attach(v->offers, v->host);
    }
    return &v->head;
}

// ---- the runner -----------------------------------------------------------------------------------

static int hosted_load(void *arg, const struct plugin_code *code, struct gen_unit *u, bool dry_run,
                       struct plugin_version **out, struct gen_diag *fault)
{
    struct hosted *v = hosted_of(*out);
    (void)arg;
    (void)code;
    (void)dry_run;
    assert(v->state != LOADING);
    if (v->state == FAILED) {
        *fault = gen_diag_copy(&v->fault);
        return ERR_INVALID;
    }
    v->unit = u;
    host_unit_stage(v->offers, u);
    if (v->past->crash != NULL && strcmp(v->past->crashed, code->tree->hash) == 0) {
        gen_unit_note(u, &(struct gen_diag){.code = DIAG_HOST_CRASHED,
                                            .path = code->path,
                                            .message = v->past->crash,
                                            .hint = "it was started again"});
    }
    return 0;
}

static void hosted_keep(struct plugin_version *head)
{
    struct hosted *v = hosted_of(head);
    assert(!v->kept && v->state == READY);
    v->kept = true;
    vec_foreach (k, &v->early) {
        past_set(v->past, k->key, k->text);
        free(k->key);
    }
    v->early.n = 0;
}

static void hosted_enter(struct plugin_version *head, enum gen_reason why,
                         struct gen_life_call *call)
{
    struct hosted *v = hosted_of(head);
    struct buf data = {.max = SIZE_MAX};
    assert(v->kept && !v->left);
    vec_push(&v->owner->serving, v);
    struct jw w = {.out = &data};
    jw_obj(&w);
    jw_kstrz(&w, "reason", gen_reason_name(why));
    write_state(v->past, &w);
    jw_end_obj(&w);
    host_event(v->host, STR("plugin_start"), buf_str(&data));
    buf_fini(&data);
    gen_life_done(call, NULL);
}

static void hosted_leave(struct plugin_version *head, enum gen_reason why,
                         struct gen_life_call *call)
{
    struct hosted *v = hosted_of(head);
    assert(v->kept);
    vec_drop(&v->owner->serving, v);
    v->left = true;
    host_unit_shutdown(&v->shutdown, v->host, why, *v->owner->opts.start_ms, v->head.code->path,
                       call);
}

static void hosted_free(struct plugin_version *head)
{
    struct hosted *v = hosted_of(head);
    vec_drop(&v->owner->serving, v);
    if (v->task != NULL) {
        loop_cancel(v->owner->opts.loop, v->task);
    }
    vec_foreach (o, &v->asks) {
        (*o)->version = NULL;
    }
    host_unit_detach(v->offers);
    host_unit_unref(v->offers);
    host_close(v->host);
    vec_fini(&v->asks);
    vec_fini_each(&v->early, kept_free);
    gen_diag_fini(&v->fault);
    arena_fini(&v->arena);
    free(v->space);
    free(v);
}

/// What its process holds in memory, with what it shares with others of its kind.
static size_t hosted_memory(const struct plugin_version *head)
{
    const struct hosted *v = hosted_of(head);
    int pid = v->host != NULL ? host_proc_pid(v->host) : 0;
    char path[64];
    unsigned long pages = 0;
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *f = pid != 0 ? fopen(path, "re") : NULL;
    if (f != NULL) {
        child = fscanf(f, "%d", &child) == 1 ? child : 0;
        fclose(f);
    }
    snprintf(path, sizeof path, "/proc/%d/statm", child);
    f = child != 0 ? fopen(path, "re") : NULL;
    if (f != NULL) {
        pages = fscanf(f, "%*u %lu", &pages) == 1 ? pages : 0;
        fclose(f);
    }
    return pages * 4096;
}

static bool hosted_dead(const struct plugin_version *head)
{
    const struct hosted *v = hosted_of(head);
    return v->host == NULL || !host_alive(v->host);
}

// ---- events ---------------------------------------------------------------------------------------

void hosts_event(struct hosts *hs, struct str name, struct str data)
{
    vec_foreach (v, &hs->serving) {
        if (host_unit_hears((*v)->offers, name)) {
            host_event((*v)->host, name, data);
        }
    }
}

bool hosts_listen(const struct hosts *hs)
{
    for (size_t i = 0; i < hs->serving.n; i++) {
        if (host_unit_hears(hs->serving.p[i]->offers, STR_NULL)) {
            return true;
        }
    }
    return false;
}

// ---- life -----------------------------------------------------------------------------------------

struct hosts *hosts_open(const struct hosts_opts *o)
{
    // What a plugin gets to see of our environment: what programs of this user need, and no secrets.
    static const char *const names[] = {"HOME", "PATH",   "USER",           "LOGNAME",
                                        "LANG", "TMPDIR", "XDG_RUNTIME_DIR"};
    struct hosts *hs = xcalloc(1, sizeof *hs);
    hs->opts = *o;
    hs->rules = (struct host_rules){.whole = true,
                                    .hook_ms = o->hook_ms,
                                    .tool_ms = o->tool_ms,
                                    .watch = o->watch,
                                    .watch_arg = o->arg};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        if (value != NULL) {
            vec_push(&hs->env, xasprintf("%s=%s", names[i], value));
        }
    }
    if (getenv("PATH") == NULL) {
        vec_push(&hs->env, xstrdup("PATH=/usr/local/bin:/usr/bin:/bin"));
    }
    vec_push(&hs->env, xasprintf("AFLOAT_HOST_CACHE=%s", o->cache));
    for (size_t lang = LANG_PYTHON; lang < LANG__COUNT; lang++) {
        hs->runners[lang] = (struct plugin_runner){
            .host = plugin_lang_name((enum plugin_lang)lang),
            .start = hosted_start,
            .load = hosted_load,
            .keep = hosted_keep,
            .enter = hosted_enter,
            .leave = hosted_leave,
            .free = hosted_free,
            .memory = hosted_memory,
            .dead = hosted_dead,
            .arg = &hs->runners[lang],
        };
    }
    return hs;
}

void hosts_close(struct hosts *hs)
{
    if (hs == NULL) {
        return;
    }
    assert(hs->serving.n == 0);
    struct str key;
    void *past;
    for (size_t at = 0; map_next(&hs->pasts, &at, &key, &past);) {
        struct hosted_past *p = past;
        vec_fini_each(&p->state, kept_free);
        free(p->crash);
        free(p);
    }
    map_fini(&hs->pasts);
    vec_fini_each(&hs->env, free);
    vec_fini(&hs->serving);
    free(hs);
}

const struct plugin_runner *hosts_runner(const struct hosts *hs, enum plugin_lang lang)
{
    assert(lang >= LANG_PYTHON && lang < LANG__COUNT);
    return &hs->runners[lang];
}
