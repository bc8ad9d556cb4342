// Running Lua for the hub: one job is one entry, from its message to its answer.
//
//     far__run ──> entry_run ──┬── done, failed ──> answer ──> free
//                              └── waits ──> in `jobs` ──> done, failed, cancelled ──> answer ──> free
//
// Every id is answered exactly once, whatever the code does. A job without an id (a timer, an
// event) says only when it failed.

#include "host/host_int.h"

enum { ARGS_MAX = 8 }; // of a handler; an empty Lua stack has room for more

struct far__job {
    struct entry entry;
    struct far *far;
    struct far__run run; // `ctx` and `args` are gone
};

static void job_free(struct far__job *j)
{
    struct far *f = j->far;
    vec_drop(&f->jobs, j);
    entry_end(&j->entry);
    free(j);
}

// ---- answers -------------------------------------------------------------------------------

/// A tool that returned nil and a text failed with that text.
static void answer_done(struct far__job *j)
{
    struct entry *en = &j->entry;
    struct arena a = {0};
    struct json *value = NULL;
    struct err e = {0};
    struct jw w;
    const struct far__run *r = &j->run;
    if (r->tool && en->n_results >= 2 && lua_isnil(en->L, 1) && lua_type(en->L, 2) == LUA_TSTRING) {
        far__error_text(j->far, r->id, lua_tostring(en->L, 2));
    } else if (r->answers && en->n_results >= 1 && value_read(&value, &a, en->L, 1, &e) < 0) {
        far__error_text(j->far, r->id, e.msg);
    } else {
        far__begin(j->far, &w, "result", r->id);
        jw_kvalue(&w, "value", value);
        far__send(j->far, &w);
    }
    arena_fini(&a);
}

static void on_done(struct entry *en, enum entry_status status)
{
    struct far__job *j = en->arg;
    if (status == ENTRY_FAILED) {
        far__error(j->far, j->run.id, en->fault);
    } else if (j->run.id != 0) {
        answer_done(j);
    }
    if (j->run.timer != 0) {
        far__timer_ended(j->far, j->run.timer);
    }
    job_free(j);
}

void far__run(struct far *f, const struct far__run *r)
{
    struct far__job *j = xcalloc(1, sizeof *j);
    int n = 0;
    assert(r->fn != 0);
    j->far = f;
    j->entry.owner = f->owner;
    j->entry.done = on_done;
    j->entry.arg = j;
    j->entry.budget_ms = r->budget_ms;
    j->run = *r;
    j->run.ctx = j->run.args = NULL; // the caller's
    vec_push(&f->jobs, j);
    lua_State *L = entry_begin(&j->entry, f->vm);
    refs_push(L, r->fn);
    if (r->ctx != NULL) {
        value_push(L, r->ctx);
        n++;
    }
    json_foreach_item (arg, r->args) {
        if (n < ARGS_MAX) {
            value_push(L, arg);
            n++;
        }
    }
    enum entry_status status = entry_run(&j->entry, n);
    if (status != ENTRY_WAITING) {
        on_done(&j->entry, status);
    }
}

void far__cancel(struct far *f, int64_t id)
{
    for (size_t i = 0; i < f->jobs.n && id != 0; i++) {
        if (f->jobs.p[i]->run.id == id) {
            far__error_text(f, id, "cancelled");
            job_free(f->jobs.p[i]);
            return;
        }
    }
}

void far__jobs_fini(struct far *f)
{
    while (f->jobs.n != 0) {
        job_free(*vec_last(&f->jobs));
    }
    vec_fini(&f->jobs);
}

// ---- loading -------------------------------------------------------------------------------

void far__load(struct far *f, struct str source)
{
    struct entry en = {.kind = ENTRY_LOAD, .owner = f->owner};
    struct jw w;
    char *chunk = xasprintf("@%s", f->path);
    assert(f->loaded);
    entry_begin(&en, f->vm);
    bool ok = entry_push_chunk(&en, source, chunk) == 0 && entry_run(&en, 0) == ENTRY_DONE;
    far__begin(f, &w, ok ? "loaded" : "failed", 0);
    if (ok) {
        jw_kobj(&w, "metadata");
        jw_kstrz(&w, "api", "1.0");
        jw_kstrz(&w, "name", f->name);
        jw_end_obj(&w);
    } else {
        jw_kstrz(&w, "message", en.fault->message);
        jw_kstrz(&w, "code", fault_name(en.fault->code));
        jw_kstrz(&w, "path", en.fault->path != NULL ? en.fault->path : f->path);
        jw_kint(&w, "line", en.fault->line);
    }
    far__send(f, &w);
    entry_end(&en);
    free(chunk);
}
