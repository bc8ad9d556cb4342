#include "unit/lua/run.h"

#include <lauxlib.h>

struct vm *run_vm(enum vm_trust trust)
{
    struct vm_opts opts = {.trust = trust};
    return vm_open(&opts);
}

static void keep_result(struct run *r, struct entry *en)
{
    if (en->n_results > 0) {
        size_t n;
        const char *p = luaL_tolstring(en->L, -en->n_results, &n);
        snprintf(r->text, sizeof r->text, "%.*s", (int)n, p);
    }
}

static void keep_fault(struct run *r, const struct fault *f)
{
    r->code = f->code;
    r->line = f->line;
    snprintf(r->text, sizeof r->text, "%s", f->message);
    snprintf(r->path, sizeof r->path, "%s", f->path != NULL ? f->path : "");
    snprintf(r->traceback, sizeof r->traceback, "%s", f->traceback);
}

struct run run_with(struct vm *vm, const char *source, struct entry en)
{
    struct run r = {.status = ENTRY_FAILED};
    entry_begin(&en, vm);
    if (entry_push_chunk(&en, str_of(source), "@test.lua") == 0) {
        r.status = entry_run(&en, 0);
    }
    if (r.status == ENTRY_DONE) {
        keep_result(&r, &en);
    } else {
        CHECK(en.fault != NULL);
        keep_fault(&r, en.fault);
    }
    entry_end(&en);
    return r;
}

struct run run_lua(struct vm *vm, const char *source)
{
    return run_with(vm, source, (struct entry){.budget_ms = 5000});
}
