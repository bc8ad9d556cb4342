// What one unit may have at once, so that a plugin that leaks ends up with an error and not the hub
// without memory.
//
//     timers, watches, subscriptions, hooks, offers, WebSockets    counted; beyond the cap nil and a message
//     what they hold in C                              bytes of the unit's Lua state (vm_charge)
//     commands, HTTP requests, file operations         a few run, some wait in line, the rest is refused
//     events that its handlers have not taken yet      bytes, see reg.c
//
// A cap that was reached is noted with the unit once, with the line that was refused.
//
// A line starts what waits in a later turn, since a request that cannot be started is answered, and
// Lua code then runs.
//
// Invariants:
//   - a request with `line` set is counted: among those waiting while it is `queued`, else among those
//     running, until it is answered or cancelled.
//   - `task` exists only while requests wait.

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
};

static const struct {
    const char *many;
    unsigned running, waiting;
} lines[] = {
    [LINE_FS] = {"file operations", 4, 1024},
    [LINE_EXEC] = {"commands", 16, 256},
    [LINE_HTTP] = {"requests", 32, 256},
};

struct bind__usage *bind__usage_new(void)
{
    return xcalloc(1, sizeof(struct bind__usage));
}

void bind__usage_free(struct bind__usage *u, struct loop *loop)
{
    for (size_t i = 0; i < ARRAY_LEN(u->lines); i++) {
        if (u->lines[i].task != NULL) {
            loop_cancel(loop, u->lines[i].task);
        }
    }
    free(u);
}

// ---- saying so --------------------------------------------------------------------------------

/// Note with the running unit that `what` was refused; the same once. Pushes nil and the message.
static int refuse(lua_State *L, unsigned what, const char *message)
{
    struct bind_owner *o = bind_owner_running(L);
    if ((o->usage->said & 1u << what) == 0) {
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

int bind__quota_take(lua_State *L, enum bind__quota which, size_t bytes, const char *fn)
{
    struct bind_owner *o = bind_owner_running(L);
    char text[128];
    assert(o != NULL && which < QUOTA__COUNT);
    if (o->usage->n[which] >= quotas[which].max) {
        snprintf(text, sizeof text, "%s: no more than %u %s at once", fn, quotas[which].max,
                 quotas[which].many);
        return refuse(L, which, text);
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
        l->task = loop_defer(op->o->bind->loop, on_turn, l);
    }
    struct err e = {0};
    if (op->kind->start(op, &e) < 0) {
        char text[sizeof e.msg + 32];
        snprintf(text, sizeof text, "%s: %s", op->who, e.msg);
        bind__op_fail(op, text);
        op->kind->free(op);
    }
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
    if (!vm_charge(op->o->vm, bytes)) {
        kind->free(op);
        return refuse_bytes(L, who);
    }
    op->bytes = bytes;
    if (now) {
        l->running++;
        if (kind->start(op, &e) < 0) {
            bind__line_leave(op);
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

void bind__line_leave(struct bind_op *op)
{
    if (op->line == 0) {
        return;
    }
    struct bind__line *l = line_of(op);
    struct loop *loop = op->o->bind->loop;
    if (op->queued) {
        struct bind_op **at = &l->first;
        while (*at != op) {
            at = &(*at)->line_next;
        }
        *at = op->line_next;
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
    vm_discharge(op->o->vm, op->bytes);
    op->line = 0;
}
