// What one unit may have at once: a plugin that leaks gets an error before the hub runs out of memory.
//
//     timers, watches, subscriptions, hooks, offers, WebSockets, files    counted; beyond the limit nil and a message
//     the memory that they and requests hold in C      counts as memory of the unit's Lua state (vm_charge)
//     commands, HTTP requests, file operations         a few run, some wait in line, the rest is refused
//     events that its handlers have not taken yet      bytes, see reg.c
//
// The first refusal of each kind is noted with the unit, with the line of Lua that was refused.
//
// A waiting request is started in a later turn of the loop: one that cannot be started is answered at once, and that runs
// Lua code.
//
// Invariants:
//   - until it is answered or cancelled, a request with `line` set is counted: as waiting while it is `queued`, else as
//     running.
//   - `task` exists only while requests wait.

#include <assert.h>

#include <lauxlib.h>

#include "bind/bind_int.h"

static const struct {
    const char *many;
    unsigned max;
} quotas[] = {
    [QUOTA_TIMER] = {"timers", 1024},
    [QUOTA_WATCH] = {"watches", 256},
    [QUOTA_EVENT] = {"event handlers", 1024},
    [QUOTA_HOOK] = {"hooks", 1024},
    [QUOTA_OFFER] = {"tools, routes, commands and prompts", 1024},
    [QUOTA_SOCKET] = {"WebSockets", 64},
    [QUOTA_FILE] = {"open files", 256},
};

static const struct {
    const char *many;
    unsigned running, waiting;
} lines[] = {
    [LINE_FS] = {"file operations", 4, 1024},
    [LINE_EXEC] = {"commands", 16, 256},
    [LINE_HTTP] = {"requests", 32, 256},
};

void bind__usage_free(struct bind__usage *u, struct loop *loop)
{
    for (size_t i = 0; i < ARRAY_LEN(u->lines); i++) {
        if (u->lines[i].task != NULL) {
            loop_cancel(loop, u->lines[i].task);
        }
    }
    free(u);
}

// ---- refusing --------------------------------------------------------------------------------

/// Push nil and the message. The first time that `what` is refused it is noted with the running unit.
static int refuse(lua_State *L, unsigned what, const char *message)
{
    struct bind_owner *o = bind_owner_running(L);
    if (o != NULL && (o->usage->said & 1u << what) == 0) {
        o->usage->said |= 1u << what;
        bind__note_here(L, DIAG_LIMIT_REACHED, message);
    }
    return args_fail(L, "%s", message);
}

static int refuse_bytes(lua_State *L, const char *fn)
{
    char text[128];
    snprintf(text, sizeof text, "%s: no room for it in the memory limit of %u MiB", fn,
             bind_of(L)->limits.memory_mb);
    return refuse(L, QUOTA__COUNT + LINE__COUNT, text);
}

// ---- registrations ----------------------------------------------------------------------------

bool bind__quota_full(enum bind__quota which, unsigned n)
{
    assert(which < QUOTA__COUNT);
    return n >= quotas[which].max;
}

int bind__quota_refuse(lua_State *L, enum bind__quota which, const char *fn)
{
    char text[128];
    snprintf(text, sizeof text, "%s: no more than %u %s at once", fn, quotas[which].max,
             quotas[which].many);
    return refuse(L, which, text);
}

int bind__quota_take(lua_State *L, enum bind__quota which, size_t bytes, const char *fn)
{
    struct bind_owner *o = bind_owner_running(L);
    assert(o != NULL);
    if (bind__quota_full(which, o->usage->n[which])) {
        return bind__quota_refuse(L, which, fn);
    }
    if (!vm_charge(o->vm, bytes)) {
        return refuse_bytes(L, fn);
    }
    o->usage->n[which]++;
    return 0;
}

void bind__quota_give(struct bind_owner *o, enum bind__quota which, size_t bytes)
{
    assert(o->usage->n[which] > 0);
    o->usage->n[which]--;
    vm_discharge(o->vm, bytes);
}

// ---- lines ------------------------------------------------------------------------------------

static struct bind__line *line_of(const struct bind_op *op)
{
    assert(op->line >= 1 && op->line <= LINE__COUNT);
    return &op->o->usage->lines[op->line - 1];
}

static bool has_room(const struct bind_op *op)
{
    return line_of(op)->running < lines[op->line - 1].running;
}

/// Start the first that waits.
static void on_turn(void *arg)
{
    struct bind__line *l = arg;
    struct bind_op *op = l->first;
    assert(op != NULL && op->queued && l->waiting > 0);
    l->task = NULL;
    l->first = op->line_next;
    l->waiting--;
    l->running++;
    op->queued = false;
    if (l->first != NULL && has_room(op)) {
        l->task = loop_defer(op->o->bind->o.hub->loop, on_turn, l);
    }
    struct err e = {0};
    if (op->kind->start(op, &e) < 0) {
        char text[sizeof e.msg + 32];
        snprintf(text, sizeof text, "%s: %s", op->who, e.msg);
        bind__op_fail(op, text);
        op->kind->free(op);
    }
}

int bind__op_charge(lua_State *L, struct bind_op *op, size_t bytes, const char *who)
{
    op->o = bind_owner_running(L);
    assert(op->o != NULL && op->bytes == 0);
    if (!vm_charge(op->o->vm, bytes)) {
        return refuse_bytes(L, who);
    }
    op->bytes = bytes;
    return 0;
}

int bind__op_run(lua_State *L, struct bind_op *op, const struct bind_op_kind *kind, const char *who,
                 size_t bytes, int callback)
{
    struct err e = {0};
    char text[128];
    assert(op->line == 0 && !op->queued && kind->start != NULL && kind->free != NULL);
    op->o = bind_owner_running(L);
    op->kind = kind;
    op->who = who;
    op->line = (unsigned char)(kind->line + 1);
    struct bind__line *l = line_of(op);
    bool now = l->first == NULL && has_room(op);
    if (!has_room(op) && l->waiting >= lines[kind->line].waiting) {
        snprintf(text, sizeof text, "%s: %u %s are running and %u are waiting already", who,
                 l->running, lines[kind->line].many, l->waiting);
        kind->free(op);
        return refuse(L, QUOTA__COUNT + (unsigned)kind->line, text);
    }
    int refused = bind__op_charge(L, op, bytes, who);
    if (refused != 0) {
        kind->free(op);
        return refused;
    }
    if (now) {
        l->running++;
        if (kind->start(op, &e) < 0) {
            bind__op_release(op);
            kind->free(op);
            return args_fail(L, "%s: %s", who, e.msg);
        }
    } else {
        struct bind_op **at = &l->first;
        while (*at != NULL) {
            at = &(*at)->line_next;
        }
        *at = op;
        op->queued = true;
        l->waiting++;
    }
    return bind__op_begin(L, op, callback, kind->cancel);
}

void bind__op_release(struct bind_op *op)
{
    vm_discharge(op->o->vm, op->bytes);
    op->bytes = 0;
    if (op->line == 0) {
        return;
    }
    struct bind__line *l = line_of(op);
    struct loop *loop = op->o->bind->o.hub->loop;
    if (op->queued) {
        struct bind_op **at = &l->first;
        while (*at != op) {
            at = &(*at)->line_next;
        }
        *at = op->line_next;
        assert(l->waiting != 0);
        l->waiting--;
        if (l->first == NULL && l->task != NULL) {
            loop_cancel(loop, l->task);
            l->task = NULL;
        }
    } else {
        assert(l->running > 0);
        l->running--;
        if (l->first != NULL && l->task == NULL) {
            l->task = loop_defer(loop, on_turn, l);
        }
    }
    op->line = 0;
}
