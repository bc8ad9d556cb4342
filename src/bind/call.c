// Calls into Lua from the loop, and requests that Lua code makes to the loop.
//
//     Lua: fs.read(path, fn) ──> bind_op ── thread, socket, child ──> answer ──> bind_call of fn
//     Lua: t = fs.read(path) ──> bind_op ── ...                   ──> entry_wake: the code continues
//
// A request with a callback belongs to the owner that made it: when its unit leaves, it is cancelled and the callback is
// not called. A request that code waits for ends with that code, which may run to its end, within its time, even after
// its unit has left.
//
// Invariants:
//   - a call that waits pins the generation that it began in, so that its unit outlives it.
//   - `done` of a call is called exactly once.
//   - a request is answered at most once: `over` is set by its first answer, and a later one is dropped.
//   - a request is in its owner's list exactly while it has a callback and was neither answered nor
//     cancelled.

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "lua/fault.h"

struct bind_call {
    struct entry en;
    struct bind_owner *o;
    struct gen *pin; // while it waits
    struct timer deadline;
    uint32_t timeout_ms;
    bind_call_done *done;
    void *arg;
    bool quiet;
    bool rests;                    // its clock is stopped: see bind__call_rest()
    char what[128];                // what runs, for messages: "tool 'roll'"; may be ""
    struct gen_diag fault;         // a copy; its message is NULL when there is none
    struct bind_call *prev, *next; // of the owner
};

// ---- calls ------------------------------------------------------------------------------------

static void call_finish(struct bind_call *c, enum bind_end end)
{
    assert(c->o->n_calls > 0);
    list_remove(&c->o->calls, c);
    c->o->n_calls--;
    if (end != BIND_DONE) {
        entry_end(&c->en);
    }
    if (c->done != NULL) {
        c->done(c->arg,
                &(struct bind_result){.end = end,
                                      .L = c->en.L,
                                      .n = end == BIND_DONE ? c->en.n_results : 0,
                                      .fault = c->fault.message != NULL ? &c->fault : NULL});
    }
    entry_end(&c->en);
    timer_stop(&c->deadline); // last: a question that was cancelled above has started it again
    gen_unpin(c->pin);
    gen_diag_fini(&c->fault);
    free(c);
}

static void call_note(struct bind_call *c, const struct gen_diag *d)
{
    assert(c->fault.message == NULL); // a call fails once
    c->fault = gen_diag_copy(d);
    if (c->quiet) {
        bind__log_fault(c->o, c->what, d);
    } else {
        bind__note_fault(c->o, c->what, d);
    }
}

static void call_ended(struct bind_call *c, enum entry_status status)
{
    enum bind_end end = BIND_DONE;
    if (status != ENTRY_DONE && c->en.fault->code == FAULT_STALE_HANDLE) {
        end = BIND_CANCELLED;
    } else if (status != ENTRY_DONE) {
        struct gen_diag d = bind__diag_of(c->en.fault);
        call_note(c, &d);
        end = c->en.fault->code == FAULT_HOOK_TIMEOUT ? BIND_TIMEOUT : BIND_FAILED;
    }
    call_finish(c, end);
}

/// A call that waited has ended. If its Lua state was closed meanwhile, note that; calls that never began are silent.
static void on_entry_done(struct entry *en, enum entry_status status)
{
    struct bind_call *c = container_of(en, struct bind_call, en);
    if (status == ENTRY_FAILED && en->fault->code == FAULT_STALE_HANDLE) {
        bind__note(c->o, DIAG_STALE_HANDLE, NULL, 0, en->fault->message);
    }
    call_ended(c, status);
}

static void on_deadline(void *arg)
{
    struct bind_call *c = arg;
    char text[64];
    snprintf(text, sizeof text, "ran out of time after %u ms", c->timeout_ms);
    call_note(c, &(struct gen_diag){.code = DIAG_HOOK_TIMEOUT, .message = text});
    call_finish(c, BIND_TIMEOUT);
}

// ---- requests ---------------------------------------------------------------------------------

static void op_unlink(struct bind_op *op)
{
    assert(op->o->n_ops > 0);
    list_remove(&op->o->ops, op);
    op->o->n_ops--;
}

/// The answer is not wanted any more.
static void op_drop(struct bind_op *op)
{
    op->over = true;
    bind__op_release(op);
    if (op->queued) {
        op->kind->free(op);
    } else if (op->cancel != NULL) {
        op->cancel(op);
    }
}

static void on_wait_cancelled(struct entry_wait *w)
{
    op_drop(container_of(w, struct bind_op, wait));
}

// ---- inside bind/ -----------------------------------------------------------------------------

void bind__op_check(lua_State *L, int idx, const char *fn)
{
    struct bind_owner *o = bind__owner(L);
    if (lua_isnoneornil(L, idx)) {
        entry_check_wait(L);
        return;
    }
    args_fn(L, idx, fn);
    if (o->n_ops + o->n_calls >= BIND_OPS_MAX) {
        luaL_error(L, "%s: %d calls of this module are under way already", fn, BIND_OPS_MAX);
    }
}

int bind__op_begin(lua_State *L, struct bind_op *op, int idx, void (*cancel)(struct bind_op *op))
{
    op->o = bind_owner_running(L);
    assert(op->o != NULL && op->fn == 0);
    op->cancel = cancel;
    if (lua_isnoneornil(L, idx)) {
        op->wait.cancel = on_wait_cancelled;
        return entry_wait(L, &op->wait);
    }
    lua_settop(L, idx);
    op->fn = refs_take(L, op->o->owner);
    list_add(&op->o->ops, op);
    op->o->n_ops++;
    return args_bool(L, true);
}

lua_State *bind__op_answer_begin(struct bind_op *op)
{
    if (op->over) {
        return NULL;
    }
    assert(!op->queued && op->call == NULL);
    bind__op_release(op);
    op->over = true;
    if (op->fn == 0) {
        return entry_wake_begin(&op->wait);
    }
    op_unlink(op);
    bool wanted = op->o->live && !op->o->bind->stopped;
    op->call = wanted ? bind_call_begin(op->o, op->fn) : NULL;
    refs_drop(op->o->vm, op->fn);
    return op->call != NULL ? bind_call_stack(op->call) : NULL;
}

void bind__op_answer(struct bind_op *op, int n)
{
    assert(n >= 0 && (op->call != NULL || op->fn == 0));
    if (op->call != NULL) {
        bind__call_name(op->call, "callback", NULL);
        bind_call_run(op->call, n, 0, NULL, NULL);
    } else {
        entry_wake(&op->wait, n);
    }
}

void bind__op_fail(struct bind_op *op, const char *message)
{
    lua_State *L = bind__op_answer_begin(op);
    if (L != NULL) {
        lua_pushnil(L);
        lua_pushstring(L, message);
        bind__op_answer(op, 2);
    }
}

void bind__call_name(struct bind_call *c, const char *what, const char *name)
{
    assert(what != NULL && what[0] != '\0');
    if (name != NULL) {
        snprintf(c->what, sizeof c->what, "%s '%.90s'", what, name);
    } else {
        snprintf(c->what, sizeof c->what, "%s", what);
    }
}

void bind__call_rest(struct bind_call *c, bool rests)
{
    assert(c->timeout_ms > 0 && c->rests != rests); // it runs
    c->rests = rests;
    if (rests) {
        timer_stop(&c->deadline);
    } else {
        timer_start(&c->deadline, c->timeout_ms);
    }
}

void bind__call_quiet(struct bind_call *c)
{
    c->quiet = true;
}

void bind__calls_cancel(struct bind_owner *o)
{
    while (o->calls != NULL) {
        call_finish(o->calls, BIND_CANCELLED);
    }
}

void bind__ops_cancel(struct bind_owner *o)
{
    while (o->ops != NULL) {
        struct bind_op *op = o->ops;
        op_unlink(op);
        refs_drop(o->vm, op->fn);
        op_drop(op);
    }
}

bool bind__is_noted(const struct bind_owner *o, const struct gen_diag *d)
{
    vec_foreach (known, &o->unit->diags) {
        if (gen_diag_equal(known, d)) {
            return true;
        }
    }
    return false;
}

struct gen_diag bind__diag_of(const struct fault *f)
{
    static const enum gen_code codes[] = {
#define X(name) [FAULT_##name] = DIAG_##name,
        FAULT_MAP(X)
#undef X
    };
    return (struct gen_diag){.code = codes[f->code],
                             .path = f->path,
                             .line = f->line,
                             .message = f->message,
                             .traceback = f->traceback};
}

void bind__place_of(lua_State *L, vm_ref fn, struct gen_diag *d)
{
    lua_Debug ar;
    if (!refs_push(L, fn)) {
        lua_pop(L, 1);
        return;
    }
    lua_getinfo(L, ">S", &ar);
    if (ar.source[0] == '@') {
        d->path = ar.source + 1;
        d->line = ar.linedefined;
    }
}

/// Log a diagnostic and keep it with the unit. True: it is new.
static bool note(struct bind_owner *o, const struct gen_diag *d)
{
    log_warn(LOG_HUB, "unit=%s diagnostic=%s path=%s line=%d message=%s",
             LOGQ(str_of(o->unit->name)).z, gen_code_name(d->code), LOGQ(str_of(d->path)).z,
             d->line, LOGQ(str_of(d->message)).z);
    return gen_unit_fault(o->unit, d); // a handler that fails every millisecond is one event
}

void bind__note(struct bind_owner *o, enum gen_code code, const char *path, int line,
                const char *message)
{
    note(o, &(struct gen_diag){.code = code,
                               .path = path != NULL ? path : o->unit->path,
                               .line = line,
                               .message = message});
}

void bind__note_here(lua_State *L, enum gen_code code, const char *message)
{
    lua_Debug ar = {.source = ""};
    bool in_file = lua_getstack(L, 1, &ar) && lua_getinfo(L, "Sl", &ar) && ar.source[0] == '@';
    bind__note(bind_owner_running(L), code, in_file ? ar.source + 1 : NULL,
               in_file ? ar.currentline : 0, message);
}

void bind__log_fault(struct bind_owner *o, const char *what, const struct gen_diag *d)
{
    struct buf text = {.max = SIZE_MAX};
    buf_addf(&text, "%s: %s%s%s (%s:%d)", gen_code_name(d->code), what, what[0] != '\0' ? ": " : "",
             d->message, d->path != NULL ? d->path : o->unit->path, d->line);
    if (d->traceback != NULL && d->traceback[0] != '\0') {
        buf_addf(&text, "\ntraceback:\n%s", d->traceback);
    }
    bind__log(o->bind, o->owner, LOG_ERROR, buf_str(&text));
    buf_fini(&text);
}

void bind__note_fault(struct bind_owner *o, const char *what, const struct gen_diag *fault)
{
    struct gen_diag d = *fault;
    char *message = xasprintf("%s%s%s", what, what[0] != '\0' ? ": " : "", fault->message);
    d.path = d.path != NULL ? d.path : o->unit->path;
    d.message = message;
    d.hook = what[0] != '\0' ? what : NULL;
    if (note(o, &d)) {
        bind__log_fault(o, what, fault);
    }
    free(message);
}

// ---- public -----------------------------------------------------------------------------------

struct bind_call *bind_call_begin(struct bind_owner *o, vm_ref fn)
{
    if (refs_owner(o->vm, fn) == NULL) {
        return NULL;
    }
    struct bind_call *c = xcalloc(1, sizeof *c);
    c->o = o;
    c->en.budget_ms = o->bind->limits.lua_ms;
    c->en.owner = o->owner;
    c->en.done = on_entry_done;
    list_add(&o->calls, c);
    o->n_calls++;
    refs_push(entry_begin(&c->en, o->vm), fn);
    return c;
}

lua_State *bind_call_stack(struct bind_call *c)
{
    return c->en.L;
}

void bind_call_run(struct bind_call *c, int nargs, uint32_t timeout_ms, bind_call_done *done,
                   void *arg)
{
    struct bind *b = c->o->bind;
    assert(c->en.L != NULL && lua_gettop(c->en.L) > nargs);
    c->timeout_ms = timeout_ms != 0 ? timeout_ms : b->limits.tool_ms;
    c->done = done;
    c->arg = arg;
    timer_init(&c->deadline, b->o.hub->loop, on_deadline, c);
    enum entry_status status = entry_run(&c->en, nargs);
    if (status != ENTRY_WAITING) {
        call_ended(c, status);
        return;
    }
    struct gen *g = gen_current(b->o.engine);
    c->pin = g != NULL ? gen_pin(g) : NULL;
    if (!c->rests) {
        timer_start(&c->deadline, c->timeout_ms);
    }
}

void bind_call_cancel(struct bind_call *c)
{
    c->done = NULL;
    call_finish(c, BIND_CANCELLED);
}
