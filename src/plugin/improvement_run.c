// The process of one improvement: started, listened to, ended.
//
//     try ── host_proc_open(`host lua PATH`) ── register... loaded ──> READY ── staged, committed
//                                             └ failed, crashed, hung ──> the file's verdict
//     serving and dies ──> the file is said to be stopped, a run takes its unit out of the set
//
// What a process may ask of the hub is a short list, and it is checked here, not there: the tables
// inside the sandbox are for good messages only. An operation is refused before the version
// serves: what is only tried must not act.

#include <assert.h>

#include "plugin/host_proc.h"
#include "plugin/improvements_int.h"
#include "plugin/past.h"
#include "proto/ops.h"

enum {
    CPU_S = 600,          // of a process's whole life
    FILE_SIZE = 16 << 20, // of what it writes
    FILES = 32,           // open at a time
};

static const struct host_rules rules = {.whole = false};

// ---- versions ------------------------------------------------------------------------------

void improvement__bytes_free(struct str *bytes)
{
    free((void *)(uintptr_t)bytes->p);
    *bytes = STR_NULL;
}

void improvement__free(struct version *v)
{
    struct file *f = v->file;
    assert(f->n_versions != 0);
    if (f->trial == v) {
        f->trial = NULL;
    }
    if (f->serving == v) {
        f->serving = NULL;
    }
    host_unit_detach(v->offers);
    host_unit_unref(v->offers);
    host_close(v->host);
    improvement__bytes_free(&v->bytes);
    assert(f->n_versions != 0);
    f->n_versions--;
    free(v);
    improvements__sweep(f);
}

void improvement__drop_trial(struct file *f)
{
    struct version *v = f->trial;
    f->trial = NULL;
    if (v != NULL && v->unit == NULL) {
        improvement__free(v); // last: the file may go with it
    }
}

static struct gen_diag diag_of(const struct file *f, const struct host_fault *fault)
{
    struct gen_diag d = host_diag(fault, f->path);
    d.hint = "it is left alone until its file changes";
    return d;
}

/// The bytes of a file failed. What is wrong with what is there is what counts; where nothing serves, what was good
/// before the restart is tried.
static void on_failed(void *arg, const struct host_fault *fault)
{
    struct version *v = arg;
    struct file *f = v->file;
    const struct improvements *imp = f->owner;
    bool spare = v->spare;
    struct str good;
    v->state = FAILED;
    if (!spare) {
        const struct gen_diag d = diag_of(f, fault);
        improvements__verdict(f, &d);
    }
    f->judged = true;
    f->say = SAY_VERDICT;
    improvement__drop_trial(f);
    if (!spare && f->serving == NULL && !f->held && imp->opts.past != NULL && !imp->stopped &&
        past_good(imp->opts.past, f->path, &good) && !str_eq(good, f->now.bytes)) {
        improvement__try(f, good, true);
    }
    improvements__prepare_on(f->owner);
}

// ---- what a version's process says ---------------------------------------------------------

static int on_register(void *arg, const struct json *what, struct err *e)
{
    struct version *v = arg;
    return host_unit_register(v->offers, what, e);
}

static void on_loaded(void *arg, const struct json *metadata)
{
    struct version *v = arg;
    (void)metadata; // a file has none of its own
    v->state = READY;
    improvements__prepare_on(v->file->owner);
}

static void on_log(void *arg, enum log_level level, struct str text)
{
    struct version *v = arg;
    const struct improvements_opts *o = &v->file->owner->opts;
    log_write(level, LOG_HUB, "improvement=%s text=%s", v->file->name, LOGQ(text).z);
    if (o->log != NULL) {
        o->log(o->arg, v->file->name, level, text);
    }
}

bool improvement__may_call(struct str op, const struct json *params)
{
    struct str name = json_get_text(params, "name");
    const struct op *row = ops;
    while (row < ops + OP__COUNT && !str_eqz(op, row->name)) {
        row++;
    }
    if (row == ops + OP__COUNT || (row->flags & OP_AGENT) == 0) {
        return false;
    }
    return row != &ops[OP_EVENT_EMIT] ||
           (str_starts(name, "improvement.") && name.n <= IMPROVEMENT__NAME * 2);
}

static void on_call(void *arg, int64_t id, struct str op, const struct json *params)
{
    struct version *v = arg;
    const struct improvements_opts *o = &v->file->owner->opts;
    if (!improvement__may_call(op, params)) {
        host_answer(v->host, id, ERR_DENIED, STR("not open to improvements"));
        return;
    }
    if (v->file->serving != v) {
        host_answer(v->host, id, ERR_DENIED, STR("not before it serves"));
        return;
    }
    struct buf answer = {.max = SIZE_MAX};
    const struct improvement_call c = {.op = op, .params = params};
    int rc = o->call(o->arg, &c, &answer);
    host_answer(v->host, id, rc, buf_str(&answer));
    buf_fini(&answer);
}

/// A process died. Nothing of what serves may be called any more, and its bytes are not tried again.
static void on_end(void *arg, const struct host_fault *fault)
{
    struct version *v = arg;
    struct file *f = v->file;
    if (v->unit == NULL) {
        on_failed(v, fault);
        return;
    }
    if (f->serving != v || f->owner->stopped) {
        return; // an old version on its way out: its callers were told
    }
    if (strcmp(f->now.hash, v->hash) == 0) {
        const struct gen_diag d = diag_of(f, fault);
        improvements__verdict(f, &d);
        f->judged = true;
    }
    f->say = SAY_STOPPED;
    improvements__request(f->owner, "host");
}

static const struct host_owner owner = {
    .on_register = on_register,
    .on_loaded = on_loaded,
    .on_failed = on_failed,
    .on_log = on_log,
    .on_call = on_call,
    .on_end = on_end,
};

// ---- trying a file -------------------------------------------------------------------------

/// The source travels with `load`: what runs is what was hashed.
static int version_start(struct version *v, struct err *e)
{
    struct file *f = v->file;
    const struct improvements_opts *o = &f->owner->opts;
    struct buf load = {.max = SIZE_MAX}, config = {.max = SIZE_MAX};
    o->config(o->arg, &config);
    struct jw w = {.out = &load};
    jw_obj(&w);
    jw_kstrz(&w, "path", f->path);
    jw_kstrz(&w, "name", f->name);
    jw_kstrz(&w, "api", "1.0");
    jw_kobj(&w, "options");
    jw_end_obj(&w);
    jw_kobj(&w, "state");
    jw_end_obj(&w);
    jw_kstrz(&w, "data_dir", o->data_dir);
    jw_key(&w, "config");
    jw_raw(&w, config.n != 0 ? buf_str(&config) : STR("{}"));
    jw_kstr(&w, "source", v->bytes);
    jw_end_obj(&w);
    const char *const argv[] = {o->program, "host", "lua", f->path, NULL};
    const struct host_proc_opts opts = {
        .name = f->unit,
        .argv = argv,
        .load = {load.p + 1, load.n - 2},
        .end_on_limit = true,
        .cpu_limit_s = CPU_S,
        .process_limit = 1,
        .file_size_limit = FILE_SIZE,
        .file_limit = FILES,
    };
    int rc = host_proc_open(&v->host, f->owner->loop, &opts, &owner, v, e);
    buf_fini(&config);
    buf_fini(&load);
    return rc;
}

void improvement__try(struct file *f, struct str bytes, bool spare)
{
    struct err e = {0};
    struct version *v = xcalloc(1, sizeof *v);
    uint8_t hash[SHA256_SIZE];
    assert(f->trial == NULL);
    v->file = f;
    v->bytes = (struct str){str_dup(bytes), bytes.n};
    v->spare = spare;
    v->began = loop_now(f->owner->loop);
    v->offers = host_unit_new(&rules);
    sha256_of(bytes, hash);
    sha256_hex(hash, v->hash);
    f->trial = v;
    f->n_versions++;
    if (version_start(v, &e) < 0) {
        on_failed(v, &(struct host_fault){.code = DIAG_HOST_CRASHED, .message = e.msg});
        return;
    }
    host_unit_attach(v->offers, v->host);
}
