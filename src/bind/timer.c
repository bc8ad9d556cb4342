// Timers of Lua code in the hub: the backend of the library `timer` (lua/lib_timer.c).
//
// A repeating timer is due one interval after it was due last, but never before its handler has ended; intervals that were
// missed are skipped.

#include "loop/timer.h"

#include "bind/bind_int.h"

struct lua_timer {
    struct bind_reg reg;
    struct timer timer;
    uint64_t ms, due;
};

struct nap {
    struct bind_op op;
    struct timer timer;
};

static struct lua_timer *timer_of(struct bind_reg *r)
{
    return container_of(r, struct lua_timer, reg);
}

static void on_timer(void *arg)
{
    struct lua_timer *t = arg;
    bind__reg_post(&t->reg, STR_NULL, NULL);
}

static void start(struct bind_reg *r)
{
    struct lua_timer *t = timer_of(r);
    timer_init(&t->timer, r->o->bind->o.hub->loop, on_timer, t);
    assert(r->live);
    t->due = loop_now(r->o->bind->o.hub->loop) + t->ms;
    timer_start(&t->timer, t->ms);
}

static void stop(struct bind_reg *r)
{
    timer_stop(&timer_of(r)->timer);
}

static void start_again(struct bind_reg *r)
{
    struct lua_timer *t = timer_of(r);
    assert(r->live && t->ms > 0);
    uint64_t now = loop_now(r->o->bind->o.hub->loop);
    t->due += t->ms;
    if (t->due <= now) {
        t->due = now + t->ms;
    }
    timer_start(&t->timer, t->due - now);
}

static void once(struct bind_reg *r)
{
    bind__reg_off(r);
}

static void timer_free(struct bind_reg *r)
{
    free(timer_of(r));
}

static const struct bind_reg_ops every_ops = {
    .what = "timer",
    .quota = QUOTA_TIMER,
    .kind = GEN_TIMER,
    .start = start,
    .stop = stop,
    .idle = start_again,
    .free = timer_free,
};

static const struct bind_reg_ops after_ops = {
    .what = "timer",
    .quota = QUOTA_TIMER,
    .kind = GEN__KINDS,
    .start = start,
    .stop = stop,
    .idle = once,
    .free = timer_free,
};

static int lib_add(lua_State *L, const char *who, uint64_t ms, bool again)
{
    (void)who;
    bind__owner(L);
    struct lua_timer *t = xcalloc(1, sizeof *t);
    t->ms = ms;
    return bind__reg_add(L, &t->reg, again ? &every_ops : &after_ops, STR_NULL, 2);
}

static bool lib_cancel(lua_State *L, uint64_t id)
{
    struct bind_reg *r = bind__reg_find(L, id, "timer");
    return r != NULL && bind__reg_off(r);
}

static void on_woken(void *arg)
{
    struct nap *n = arg;
    if (bind__op_answer_begin(&n->op) != NULL) {
        bind__op_answer(&n->op, 0);
    }
    free(n);
}

static void nap_cancel(struct bind_op *op)
{
    struct nap *n = container_of(op, struct nap, op);
    timer_stop(&n->timer);
    free(n);
}

static int lib_sleep(lua_State *L, uint64_t ms)
{
    bind__op_check(L, 2, "timer.sleep");
    struct nap *n = xcalloc(1, sizeof *n);
    timer_init(&n->timer, bind_of(L)->o.hub->loop, on_woken, n);
    timer_start(&n->timer, ms);
    return bind__op_begin(L, &n->op, 2, nap_cancel);
}

const struct lib_timers bind__timers = {.add = lib_add, .cancel = lib_cancel, .sleep = lib_sleep};
