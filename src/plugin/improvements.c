// Files that agents wrote: each runs in a locked-down process of its own.
//
//     watch ──> files ── prepare: start a process for what is new ── loaded, failed, dead ──> stage
//                                    (beside the one that serves)                        ──> commit
//     process crashed, hung, flooded, passed a limit ──> unit removed, file quarantined
//
// A run of the watcher takes the files that are ready; a requested run waits until all that was saved before it was
// seen, and PATIENCE_MS for what loads. A file that is ready later requests a run of its own.
//
// Each content of a file is tried once: one that failed or was stopped is tried again only by force, or when the file
// changes. If a file fails to load, its last good version continues; if the version that serves dies, nothing serves.
//
// Invariants:
//   - `trial` is a version that was not committed; `serving` one that was and did not leave. A
//     version belongs to its unit once it is staged, to its file before.
//   - `judged` says that the bytes of `hash` need no trial: they serve, or `verdict` says why not.

#include "plugin/improvements.h"

#include <assert.h>
#include <stdio.h>

#include "base/path.h"
#include "lua/vm.h"
#include "plugin/improvements_int.h"
#include "plugin/manifest.h"
#include "plugin/past.h"

enum {
    PATIENCE_MS = 800, // longer than a load may take that does not hang
    SHUTDOWN_MS = 2000,
};

// ---- files ---------------------------------------------------------------------------------

void improvements__verdict(struct file *f, const struct gen_diag *d)
{
    gen_diag_fini(&f->verdict);
    f->verdict = d != NULL ? gen_diag_copy(d) : (struct gen_diag){0};
}

static void file_free(struct file *f)
{
    gen_diag_fini(&f->verdict);
    free(f->name);
    free(f->unit);
    free(f->path);
    improvement__bytes_free(&f->now.bytes);
    improvement__bytes_free(&f->under.bytes);
    free(f);
}

/// Forget a file that is gone, was reported as gone, and has no process any more.
void improvements__sweep(struct file *f)
{
    struct improvements *imp = f->owner;
    if (f->now.exists || f->held || f->say != SAID || f->n_versions != 0) {
        return;
    }
    vec_drop(&imp->files, f);
    file_free(f);
}

struct file *improvements__find(struct improvements *imp, struct str name)
{
    vec_foreach (f, &imp->files) {
        if (str_eqz(name, (*f)->name)) {
            return *f;
        }
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct file *const *)a)->name, (*(struct file *const *)b)->name);
}

struct file *improvements__file(struct improvements *imp, struct str name, const char *path)
{
    struct file *f = improvements__find(imp, name);
    if (f != NULL) {
        return f;
    }
    f = xcalloc(1, sizeof *f);
    f->owner = imp;
    f->name = str_dup(name);
    f->unit = xasprintf(IMPROVEMENTS "%s", f->name);
    f->path = xstrdup(path);
    f->invalid = !plugin_name_valid(name);
    vec_push(&imp->files, f);
    qsort(imp->files.p, imp->files.n, sizeof *imp->files.p, by_name); // the load order
    return f;
}

// ---- what has to be tried ------------------------------------------------------------------

/// Try the bytes of a file, unless they are on their way, or cannot be tried at all.
static void judge_file(struct file *f)
{
    if (f->trial != NULL && strcmp(f->trial->hash, f->now.hash) == 0) {
        return;
    }
    improvement__drop_trial(f);
    f->judged = f->invalid || f->now.too_large;
    if (!f->judged) {
        improvement__try(f, f->now.bytes, false);
        return;
    }
    improvements__verdict(
        f, &(struct gen_diag){
               .path = f->path,
               .code = f->invalid ? DIAG_NAME_INVALID : DIAG_LOAD_FAILED,
               .message = f->invalid ? "an improvement's name has to be like 'daily-summary'"
                                     : "it is larger than an improvement may be"});
    f->say = SAY_VERDICT;
}

static bool was_asked(const struct improvements *imp, const struct file *f)
{
    const char *const *names = (const char *const *)imp->asked.names.p;
    size_t n = imp->asked.names.n;
    return n == 0 || str_lookup(str_of(f->unit), names, n) >= 0;
}

static void asked_clear(struct improvements *imp)
{
    vec_fini_each(&imp->asked.names, free);
    imp->asked.force = false;
}

/// Start what has to be tried for the request.
static void begin_trials(struct improvements *imp)
{
    bool force = imp->asked.force;
    imp->asked.force = false;
    for (size_t i = 0; i < imp->files.n; i++) {
        struct file *f = imp->files.p[i];
        if (force && f->held && was_asked(imp, f)) {
            improvements__force(f);
        }
        if (f->now.exists && was_asked(imp, f) && (!f->judged || force)) {
            judge_file(f);
        }
    }
}

void improvements__prepare_on(struct improvements *imp)
{
    uint64_t now = loop_now(imp->loop), until = 0;
    bool news = false;
    vec_foreach (f, &imp->files) {
        const struct version *v = (*f)->trial;
        news = news || (*f)->say != SAID || (v != NULL && v->state == READY);
        until = v != NULL && v->state == LOADING ? MAX(until, v->began + PATIENCE_MS) : until;
    }
    if (!imp->preparing && news) {
        improvements__request(imp, "watch");
    }
    if (!imp->preparing || !imp->ready || imp->catching_up) {
        return;
    }
    if (until > now && (imp->asked.wait || !news) && !imp->stopped) {
        timer_start(&imp->patience, until - now);
        return;
    }
    timer_stop(&imp->patience);
    imp->preparing = false;
    asked_clear(imp);
    gen_prepared(imp->source, news);
}

static void on_patience(void *arg)
{
    improvements__prepare_on(arg);
}

void improvements__request(struct improvements *imp, const char *trigger)
{
    if (!imp->stopped) {
        gen_request(imp->engine, &(struct gen_request){.trigger = trigger}, NULL, NULL);
    }
}

// ---- the watcher ---------------------------------------------------------------------------

static void take_change(struct improvements *imp, const struct watch_change *c)
{
    struct str base = path_base(str_of(c->path));
    struct str name = {base.p, base.n - strlen(".lua")};
    struct file *f = improvements__file(imp, name, c->path);
    struct holding h = {.exists = c->kind != WATCH_DELETED};
    h.too_large = h.exists && c->bytes.p == NULL;
    h.bytes = c->bytes.p != NULL ? (struct str){str_dup(c->bytes), c->bytes.n} : STR_NULL;
    sha256_hex(c->hash, h.hash);
    bool same = f->now.exists && h.exists && strcmp(f->now.hash, h.hash) == 0;
    if (f->held ? !improvements__end_hold(f, &h) : same) { // improvements_put() was first
        improvement__bytes_free(&h.bytes);
        return;
    }
    improvement__bytes_free(&f->now.bytes);
    f->now = h;
    f->judged = false;
    if (!h.exists) {
        f->say = SAY_GONE; // before its version goes: what is said to be gone may be forgotten
        improvement__drop_trial(f);
        scopes_forget(&imp->scopes, name);
        return;
    }
    f->say = f->say == SAY_GONE ? SAID : f->say;
}

/// The directory was read, and what was kept is known.
static void on_ready(void *arg)
{
    struct improvements *imp = arg;
    imp->ready = true;
    if (!imp->stopped) {
        improvements__take_holds(imp);
    }
    if (imp->preparing && !imp->stopped) { // a run has been waiting for this
        begin_trials(imp);
    }
    improvements__prepare_on(imp);
    if (imp->files.n != 0) {
        improvements__request(imp, "start");
    }
}

static void on_watch(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct improvements *imp = arg;
    bool first = !imp->listed;
    (void)w;
    for (size_t i = 0; i < batch->n; i++) {
        take_change(imp, &batch->changes[i]);
    }
    imp->listed = true;
    if (first && imp->opts.past != NULL) {
        past_await(imp->opts.past, on_ready, imp);
    } else if (first) {
        on_ready(imp);
    } else if (batch->n != 0 && !imp->catching_up) { // else a run takes it
        improvements__request(imp, "watch");
    }
}

// ---- the source ----------------------------------------------------------------------------

static void on_caught_up(void *arg)
{
    struct improvements *imp = arg;
    imp->catching_up = false;
    begin_trials(imp);
    improvements__prepare_on(imp);
}

static void src_prepare(void *arg, struct gen_source *src, const struct gen_request *req)
{
    struct improvements *imp = arg;
    assert(!imp->preparing);
    (void)src;
    if (imp->stopped) {
        gen_prepared(imp->source, false);
        return;
    }
    asked_clear(imp);
    imp->asked.force = req->force;
    imp->asked.wait = req->wait_all;
    for (size_t i = 0; i < req->n_names; i++) {
        vec_push(&imp->asked.names, str_dup(req->names[i]));
    }
    imp->preparing = true;
    if (imp->ready && (req->wait_all || req->dry_run)) {
        imp->catching_up = true;
        watch_catch_up(imp->watch, PATIENCE_MS, on_caught_up, imp);
    } else if (imp->ready) {
        begin_trials(imp);
        improvements__prepare_on(imp);
    }
}

static void stage_trial(struct file *f, struct gen_stage *s)
{
    struct version *v = f->trial;
    assert(v->state == READY && v->unit == NULL);
    const struct gen_unit_spec spec = {
        .name = f->unit,
        .path = f->path,
        .layer = "improvement",
        .host = "lua",
        .origin = "file",
        .hash = v->hash,
        .data = v,
    };
    v->unit = gen_stage_unit(s, &spec);
    host_unit_stage(v->offers, v->unit);
    f->staged = gen_stage_put(s, v->unit);
    if (f->staged && v->spare) {
        gen_stage_stand(s, f->unit, GEN_FAILED, &f->verdict);
    } else if (f->staged) {
        improvements__say_held(f, s);
    }
    f->judged = f->judged || !f->staged; // a name that is taken stays taken
}

static void src_stage(void *arg, struct gen_stage *s)
{
    struct improvements *imp = arg;
    vec_foreach (it, &imp->files) {
        struct file *f = *it;
        bool stopped = f->say == SAY_STOPPED;
        if (f->trial != NULL && f->trial->state == READY) {
            stage_trial(f, s);
            continue;
        }
        if (f->say == SAY_GONE || stopped) {
            gen_stage_remove(s, f->unit, GEN_REMOVE);
        }
        if (f->say == SAY_VERDICT || (stopped && f->verdict.message != NULL)) {
            gen_stage_refuse(s, f->unit, GEN_FAILED, &f->verdict);
        }
        if (f->say == SAY_GONE || f->say == SAY_HELD) {
            improvements__say_held(f, s);
        }
        f->staged = f->say != SAID;
    }
}

static void src_commit(void *arg)
{
    struct improvements *imp = arg;
    for (size_t i = imp->files.n; i-- > 0;) {
        struct file *f = imp->files.p[i];
        if (!f->staged) {
            continue;
        }
        f->staged = false;
        if (f->trial != NULL && f->trial->unit != NULL) {
            f->serving = f->trial;
            f->trial = NULL;
            improvements__serves(f);
            if (!f->serving->spare) {
                f->judged = strcmp(f->serving->hash, f->now.hash) == 0;
                improvements__verdict(f, NULL);
            }
        } else if (f->say != SAY_VERDICT && f->say != SAY_HELD) {
            f->serving = NULL;
        }
        f->say = SAID;
        improvements__sweep(f);
    }
}

/// A dry run: the units go, and their processes with them.
static void src_abort(void *arg)
{
    struct improvements *imp = arg;
    vec_foreach (f, &imp->files) {
        if ((*f)->staged && (*f)->trial != NULL && (*f)->trial->unit != NULL) {
            (*f)->trial = NULL;
        }
        (*f)->staged = false;
    }
}

static void src_leave(void *arg, struct gen_unit *u, enum gen_reason why,
                      struct gen_life_call *call)
{
    struct version *v = u->data;
    (void)arg;
    host_unit_shutdown(&v->shutdown, v->host, why, SHUTDOWN_MS, v->file->path, call);
}

static void src_enter(void *arg, struct gen_unit *u, enum gen_reason why,
                      struct gen_life_call *call)
{
    const struct version *v = u->data;
    char data[64];
    (void)arg;
    snprintf(data, sizeof data, "{\"reason\":\"%s\"}", gen_reason_name(why));
    host_event(v->host, STR("plugin_start"), str_of(data));
    gen_life_done(call, NULL);
}

static void src_release(void *arg, struct gen_unit *u)
{
    (void)arg;
    improvement__free(u->data);
}

static const struct gen_source_ops source_ops = {
    .name = "improvements",
    .prepare = src_prepare,
    .stage = src_stage,
    .commit = src_commit,
    .abort = src_abort,
    .leave = src_leave,
    .enter = src_enter,
    .release = src_release,
};

// ---- life ----------------------------------------------------------------------------------

static const char *keep(struct improvements *imp, const char *s)
{
    return arena_strdup(&imp->strings, str_of(s != NULL ? s : ""));
}

int improvements_open(struct improvements **out, struct loop *l, struct gen_engine *e,
                      struct watcher *wr, const struct improvements_opts *o, struct err *err)
{
    struct improvements *imp = xcalloc(1, sizeof *imp);
    const struct watch_opts opts = {
        .path = o->dir,
        .pattern = "*.lua",
        .want_bytes = true,
        .bytes_max = VM_CHUNK_MAX,
    };
    *out = NULL;
    imp->loop = l;
    imp->engine = e;
    imp->opts = *o;
    imp->opts.dir = keep(imp, o->dir);
    imp->opts.program = keep(imp, o->program);
    imp->opts.scopes = NULL; // its reader has it
    imp->opts.data_dir = keep(imp, o->data_dir);
    timer_init(&imp->patience, l, on_patience, imp);
    imp->lane = lane_open(l, "scopes", 1);
    int rc = scopes_init(&imp->scopes, o->scopes, imp->lane, err);
    if (rc == 0) {
        rc = watch_open(&imp->watch, wr, &opts, on_watch, imp, err);
    }
    if (rc < 0) {
        improvements_free(imp);
        return rc;
    }
    imp->source = gen_source_add(e, &source_ops, imp);
    improvements__join_past(imp);
    *out = imp;
    return 0;
}

void improvements_stop(struct improvements *imp)
{
    imp->stopped = true;
    timer_stop(&imp->patience);
    watch_close(imp->watch);
    imp->watch = NULL;
    imp->catching_up = false;
    for (size_t i = imp->files.n; i-- > 0;) {
        improvement__drop_trial(imp->files.p[i]);
    }
    imp->ready = true;
    improvements__prepare_on(imp);
}

static void nothing(void *arg)
{
    (void)arg;
}

/// After the last job of the lane: no file that is being saved comes back to `arg` any more.
static void free_now(void *arg)
{
    struct improvements *imp = arg;
    vec_foreach (f, &imp->files) {
        assert((*f)->n_versions == 0);
        file_free(*f);
    }
    vec_fini(&imp->files);
    asked_clear(imp);
    scopes_fini(&imp->scopes);
    free(imp->note);
    arena_fini(&imp->strings);
    free(imp);
}

void improvements_free(struct improvements *imp)
{
    struct lane *lane = imp->lane;
    work_submit(lane, 0, nothing, free_now, imp);
    lane_close(lane);
}

void improvements_event(struct improvements *imp, struct str name, struct str data)
{
    vec_foreach (f, &imp->files) {
        struct version *v = (*f)->serving;
        if (v != NULL && host_alive(v->host) && host_unit_hears(v->offers, name)) {
            host_event(v->host, name, data);
        }
    }
}

bool improvements_listen(const struct improvements *imp)
{
    vec_foreach (f, &imp->files) {
        if ((*f)->serving != NULL && host_unit_hears((*f)->serving->offers, STR_NULL)) {
            return true;
        }
    }
    return false;
}

void improvements_put(struct improvements *imp, struct str name, struct str bytes)
{
    char *path = xasprintf("%s/" STR_FMT ".lua", imp->opts.dir, STR_ARG(name));
    struct watch_change c = {.path = path, .kind = WATCH_CHANGED, .size = bytes.n};
    sha256_of(bytes, c.hash);
    c.bytes = bytes.n <= VM_CHUNK_MAX ? bytes : STR_NULL;
    take_change(imp, &c);
    free(path);
}

struct scopes *improvements_scopes(struct improvements *imp)
{
    return &imp->scopes;
}
