// Registrations: Lua functions that are called when something happens.
//
//     timer, watch, stream ── post(json) ──> queue ── a later turn ──> bind_call ──> idle ──> next
//
// Timers that repeat, watches and subscriptions are items of their unit: they begin when the unit is committed and end when
// it leaves. A registration that ends by itself (timer.after) is in the owner's list instead. It begins and ends with the
// unit too, but making one does not change what the unit contributes, so it makes no new generation.
//
// A handler never runs twice at the same time: what happens while it waits is queued, in order. When the queue is full the
// newest post is dropped and noted with the unit. A handler that runs out of time three times in a row is switched off
// until its unit changes.
//
// Invariants:
//   - `live` exactly between start() and stop(); only then `task` and a queue may exist.
//   - `busy` exactly while a call of it is under way, which holds a reference.

#include <lauxlib.h>

#include "bind/bind_int.h"

enum {
    QUEUE_BYTES = 16 << 20, // posted to all registrations of an owner
    END_BYTES = 4 << 20,    // on top, for ends of connections; needed posts use up to 2 MiB of it
    NEEDED_MAX = 1024,      // bytes of a post that is taken although there is no room
    TURN_MAX = 32,
    REG_BYTES = 768, // that a registration needs in C, about
};

static size_t post_bytes(size_t json)
{
    return json + 128;
}

// ---- life -------------------------------------------------------------------------------------

static void post_fini(struct bind__post *p)
{
    free(p->json);
    free(p->name);
}

static void reg_unref(struct bind_reg *r)
{
    assert(r->refs > 0);
    if (--r->refs != 0) {
        return;
    }
    vec_fini(&r->queue);
    r->ops->free(r);
}

static void reg_start(void *reg)
{
    struct bind_reg *r = reg;
    assert(!r->live);
    r->live = true;
    if (r->ops->start != NULL) {
        r->ops->start(r);
    }
}

static void queue_clear(struct bind_reg *r)
{
    assert(r->at <= r->queue.n);
    for (size_t i = r->at; i < r->queue.n; i++) {
        r->o->usage->posted -= post_bytes(r->queue.p[i].n);
        post_fini(&r->queue.p[i]);
    }
    r->queue.n = r->at = 0;
}

static void reg_stop(void *reg)
{
    struct bind_reg *r = reg;
    if (!r->live) {
        return;
    }
    r->live = false;
    if (r->ops->stop != NULL) {
        r->ops->stop(r);
    }
    if (r->task != NULL) {
        loop_cancel(r->o->bind->o.hub->loop, r->task);
        r->task = NULL;
    }
    queue_clear(r);
}

/// It will not fire again and can no longer be found by its id.
static void reg_release(void *reg)
{
    struct bind_reg *r = reg;
    reg_stop(r);
    map_remove(&r->o->bind->regs, bind__id_key(&r->id));
    refs_drop(r->o->vm, r->fn);
    bind__quota_give(r->o, r->ops->quota, REG_BYTES);
    reg_unref(r);
}

static const struct gen_item_ops item_ops = {
    .start = reg_start, .stop = reg_stop, .release = reg_release};

static void drop_own(struct bind_reg *r)
{
    list_remove(&r->o->regs, r);
    reg_release(r);
}

// ---- calling ----------------------------------------------------------------------------------

static void pump(void *arg);

static bool may_run(const struct bind_reg *r)
{
    return r->live && !r->busy && !r->off && !r->o->bind->stopped;
}

void bind__reg_poke(struct bind_reg *r)
{
    if (r->task == NULL && !r->pumping && may_run(r)) {
        r->task = loop_defer(r->o->bind->o.hub->loop, pump, r);
    }
}

static void on_done(void *arg, const struct bind_result *how)
{
    struct bind_reg *r = arg;
    assert(r->busy);
    r->busy = false;
    if (how->end != BIND_CANCELLED) {
        r->strikes = how->end == BIND_TIMEOUT ? r->strikes + 1 : 0;
    }
    if (r->strikes == HOOK_STRIKES && !r->off) {
        char text[128];
        snprintf(text, sizeof text, "%s handler ran out of time %d times in a row", r->ops->what,
                 HOOK_STRIKES);
        bind__note(r->o, DIAG_HOOK_DISABLED, NULL, 0, text);
        r->off = true;
        queue_clear(r); // its bytes are for the other handlers of the unit now
    }
    if (r->live && !r->off && r->ops->idle != NULL) {
        r->ops->idle(r);
    }
    if (r->queue.n != 0 || r->ops->refill != NULL) {
        bind__reg_poke(r);
    }
    reg_unref(r);
}

/// Push what was posted; returns how many values.
static int push_post(lua_State *L, const struct bind__post *p)
{
    struct arena a = {0};
    struct json *v = NULL;
    if (p->json != NULL) {
        int rc = json_parse(&v, &a, (struct str){p->json, p->n}, NULL, NULL);
        value_push(L, rc == 0 ? v : NULL); // NULL is nil
        arena_fini(&a);
    }
    if (p->name != NULL) {
        lua_pushstring(L, p->name);
    }
    return (p->json != NULL) + (p->name != NULL);
}

static void run_next(struct bind_reg *r)
{
    assert(r->at < r->queue.n && !r->busy);
    struct bind__post p = r->queue.p[r->at++];
    r->o->usage->posted -= post_bytes(p.n);
    size_t left = r->queue.n - r->at;
    if (left == 0) {
        r->dropping = false;
    }
    if (left <= r->at) { // move what is left to the front: a queue may never become empty
        memmove(r->queue.p, r->queue.p + r->at, left * sizeof p);
        r->queue.n = left;
        r->at = 0;
    }
    struct bind_call *c = bind_call_begin(r->o, r->fn);
    if (c != NULL) {
        int n = push_post(bind_call_stack(c), &p);
        bind__call_name(c, r->ops->what, p.name);
        r->busy = true;
        r->refs++;
        bind_call_run(c, n, 0, on_done, r);
    }
    post_fini(&p);
}

static void pump(void *arg)
{
    struct bind_reg *r = arg;
    bool more = true;
    r->task = NULL;
    r->refs++; // the handler may remove it
    r->pumping = true;
    for (int i = 0; i < TURN_MAX && more && may_run(r); i++) {
        more = r->queue.n != 0 || (r->ops->refill != NULL && r->ops->refill(r));
        if (more) {
            run_next(r);
        }
    }
    r->pumping = false;
    if (more) { // in a later turn: other work of the loop comes first
        bind__reg_poke(r);
    }
    reg_unref(r);
}

// ---- inside bind/ -----------------------------------------------------------------------------

int bind__reg_add(lua_State *L, struct bind_reg *r, const struct bind_reg_ops *ops, struct str name,
                  int idx)
{
    struct bind_owner *o = bind_owner_running(L);
    struct err e = {0};
    assert(o != NULL && ops->free != NULL && ops->what != NULL);
    r->o = o;
    r->ops = ops;
    r->refs = 1;
    r->id = ++o->bind->next_id;
    if (o->unit->life == GEN_DRAINING) {
        ops->free(r);
        return args_fail(L, "stale handle: this version of '%s' has been replaced", o->unit->name);
    }
    int refused = bind__quota_take(L, ops->quota, REG_BYTES, ops->what);
    if (refused != 0) {
        ops->free(r);
        return refused;
    }
    lua_settop(L, idx);
    r->fn = refs_take(L, o->owner);
    map_set(&o->bind->regs, bind__id_key(&r->id), r);
    lua_pushinteger(L, (lua_Integer)r->id);
    if (ops->kind == GEN__KINDS) {
        list_add(&o->regs, r);
        if (o->live) {
            reg_start(r);
        }
        return 1;
    }
    struct gen_item_spec spec = {.kind = ops->kind, .name = name, .ops = &item_ops, .data = r};
    int rc = gen_unit_add(o->unit, &spec, &r->item, &e);
    if (rc < 0) {
        reg_release(r);
        return args_fail(L, "%s", e.msg);
    }
    return 1;
}

struct bind_reg *bind__reg_find(lua_State *L, uint64_t id, const char *what)
{
    struct bind_reg *r = map_get(&bind_of(L)->regs, bind__id_key(&id));
    bool own = r != NULL && r->o == bind_owner_running(L);
    return own && strcmp(r->ops->what, what) == 0 ? r : NULL;
}

/// handle:off(); the upvalue is the id.
static int l_off(lua_State *L)
{
    uint64_t id = (uint64_t)lua_tointeger(L, lua_upvalueindex(1));
    struct bind_reg *r = map_get(&bind_of(L)->regs, bind__id_key(&id));
    return args_bool(L, r != NULL && bind__reg_off(r));
}

int bind__push_handle(lua_State *L, lua_CFunction off, uint64_t id)
{
    lua_createtable(L, 0, 1);
    lua_pushinteger(L, (lua_Integer)id);
    lua_pushcclosure(L, off, 1);
    lua_setfield(L, -2, "off");
    return 1;
}

int bind__reg_add_handle(lua_State *L, struct bind_reg *r, const struct bind_reg_ops *ops,
                         struct str name, int idx)
{
    int n = bind__reg_add(L, r, ops, name, idx);
    return n == 1 ? bind__push_handle(L, l_off, (uint64_t)lua_tointeger(L, -1)) : n;
}

bool bind__reg_off(struct bind_reg *r)
{
    if (r->item == NULL) {
        drop_own(r);
        return true;
    }
    if (gen_item_is_off(r->item)) {
        return false;
    }
    return gen_item_off(r->item, NULL) == 0;
}

static void post(struct bind_reg *r, struct str json, const char *name, size_t limit)
{
    if (!r->live || r->off) {
        return;
    }
    // A small post that finds an empty queue is always taken: a timer that lost its tick would never fire again.
    bool needed = json.n <= NEEDED_MAX && r->queue.n == 0;
    if (!needed && r->o->usage->posted + post_bytes(json.n) > limit) {
        if (!r->dropping) { // once, until its queue is empty again
            r->dropping = true;
            char text[128];
            snprintf(text, sizeof text,
                     "a handler is too slow: %s dropped, more than %d MiB are queued",
                     strcmp(r->ops->what, "event") == 0 ? "events were" : "calls were",
                     QUEUE_BYTES >> 20);
            bind__note(r->o, DIAG_LIMIT_REACHED, NULL, 0, text);
        }
        return;
    }
    struct bind__post p = {
        .json = json.p != NULL ? str_dup(json) : NULL,
        .n = json.n,
        .name = name != NULL ? xstrdup(name) : NULL,
    };
    vec_push(&r->queue, p);
    r->o->usage->posted += post_bytes(p.n);
    bind__reg_poke(r);
}

void bind__reg_post(struct bind_reg *r, struct str json, const char *name)
{
    post(r, json, name, QUEUE_BYTES);
}

void bind__reg_post_end(struct bind_reg *r, struct str json)
{
    post(r, json, NULL, QUEUE_BYTES + END_BYTES);
}

void bind__regs_start(struct bind_owner *o)
{
    struct bind_reg *r = o->regs;
    while (r != NULL && r->next != NULL) {
        r = r->next;
    }
    for (; r != NULL; r = r->prev) { // the oldest first: timers fire in the order they were written
        reg_start(r);
    }
}

void bind__regs_stop(struct bind_owner *o)
{
    for (struct bind_reg *r = o->regs; r != NULL; r = r->next) {
        reg_stop(r);
    }
}

void bind__regs_close(struct bind_owner *o)
{
    while (o->regs != NULL) {
        drop_own(o->regs);
    }
}
