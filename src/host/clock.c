// Timers, and entries that are suspended: the backend of the library `timer` (lua/lib_timer.c).
//
// Timers begin when the version does (the hub says plugin_start), not when the file loads: a file that
// is only tried must not act. Until then `due` is how long to wait from there. Once the hub said
// shutdown no timer fires any more; what sleeps inside an open id continues.
//
// Everything is a small array that is looked through: there are at most a few hundred.

#include <time.h>

#include "base/time.h"
#include "host/host_int.h"

static uint64_t now_ms(void)
{
    return time_mono_ns() / 1000000;
}

// ---- timers --------------------------------------------------------------------------------

static bool timers_run(const struct far *f)
{
    return f->started && !f->leaving;
}

void far__start_timers(struct far *f)
{
    if (!f->started) {
        f->started = true;
        vec_foreach (t, &f->timers) {
            t->due += now_ms();
        }
    }
}

/// Call the function on top of the stack, which is taken off; its id. Raises when there are too many: a file
/// that asks for hundreds asks for ever.
static uint64_t add_timer(lua_State *L, const char *who, uint64_t ms, uint64_t every_ms)
{
    struct far *f = far__of(L);
    if (f->timers.n >= FAR__TIMERS) {
        luaL_error(L, "%s: no more than %d timers at once", who, FAR__TIMERS);
    }
    const struct far__timer t = {
        .id = ++f->last_timer,
        .every_ms = every_ms,
        .due = ms + (f->started ? now_ms() : 0),
        .fn = refs_take(L, f->owner),
    };
    vec_push(&f->timers, t);
    return t.id;
}

static int lib_add(lua_State *L, const char *who, uint64_t ms, bool again)
{
    ms = again ? MAX(ms, FAR__TIMER_MIN_MS) : ms;
    lua_pushinteger(L, (lua_Integer)add_timer(L, who, ms, again ? ms : 0));
    return 1;
}

static struct far__timer *find_timer(struct far *f, uint64_t id)
{
    vec_foreach (t, &f->timers) {
        if (t->id == id) {
            return t;
        }
    }
    return NULL;
}

static void remove_timer(struct far *f, struct far__timer *t)
{
    refs_drop(f->vm, t->fn);
    vec_remove(&f->timers, t - f->timers.p);
}

static bool lib_cancel(lua_State *L, uint64_t id)
{
    struct far *f = far__of(L);
    struct far__timer *t = find_timer(f, id);
    if (t != NULL) {
        remove_timer(f, t);
    }
    return t != NULL;
}

static int call_ended(lua_State *L, int status, lua_KContext ctx)
{
    (void)L;
    (void)status;
    (void)ctx;
    return 0;
}

/// Call the first upvalue with the others.
static int call_upvalues(lua_State *L)
{
    int n = 0;
    lua_settop(L, 0);
    while (!lua_isnone(L, lua_upvalueindex(n + 1))) {
        lua_pushvalue(L, lua_upvalueindex(++n));
    }
    lua_callk(L, n - 1, 0, 0, call_ended);
    return 0;
}

int far__call_later(lua_State *L, const char *who, int n)
{
    lua_pushcclosure(L, call_upvalues, n + 1);
    add_timer(L, who, 0, 0);
    return args_bool(L, true);
}

void far__timer_ended(struct far *f, uint64_t id)
{
    struct far__timer *t = find_timer(f, id);
    uint64_t now = now_ms();
    if (t == NULL) { // it cancelled itself
        return;
    }
    if (t->every_ms == 0) {
        remove_timer(f, t);
        return;
    }
    assert(t->inside);
    t->inside = false;
    t->due += t->every_ms;
    if (t->due <= now) { // times that were missed are left out
        t->due = now + t->every_ms;
    }
}

// ---- waiting -------------------------------------------------------------------------------

static void wait_free(struct far__wait *w)
{
    vec_drop(&w->far->waits, w);
    free(w);
}

static void on_cancelled(struct entry_wait *w)
{
    wait_free(container_of(w, struct far__wait, wait));
}

static int suspend(lua_State *L, uint64_t due, int64_t call_id)
{
    struct far *f = far__of(L);
    struct far__wait *w = xcalloc(1, sizeof *w);
    w->wait.cancel = on_cancelled;
    w->far = f;
    w->due = due;
    w->call_id = call_id;
    vec_push(&f->waits, w);
    return entry_wait(L, &w->wait);
}

static int lib_sleep(lua_State *L, uint64_t ms)
{
    return suspend(L, now_ms() + ms, 0);
}

int far__wait_call(lua_State *L, int64_t id)
{
    assert(id > 0);
    return suspend(L, UINT64_MAX, id);
}

/// Continue with `n` values that were pushed on what entry_wake_begin() gave.
static void wake(struct far__wait *w, int n)
{
    vec_drop(&w->far->waits, w); // first: the code that runs may wait again
    entry_wake(&w->wait, n);
    free(w);
}

void far__answered(struct far *f, int64_t id, const struct json *value, struct str message)
{
    vec_foreach (it, &f->waits) {
        struct far__wait *w = *it;
        if (w->call_id == id && id != 0) {
            lua_State *L = entry_wake_begin(&w->wait);
            if (value != NULL) {
                value_push(L, value);
            } else {
                lua_pushnil(L);
                lua_pushlstring(L, message.p, message.n);
            }
            wake(w, value != NULL ? 1 : 2);
            return;
        }
    }
}

// ---- the loop's part -----------------------------------------------------------------------

int far__next_ms(const struct far *f)
{
    uint64_t first = UINT64_MAX, now = now_ms();
    for (size_t i = 0; i < f->timers.n && timers_run(f); i++) {
        first = f->timers.p[i].inside ? first : MIN(first, f->timers.p[i].due);
    }
    for (size_t i = 0; i < f->waits.n; i++) {
        first = MIN(first, f->waits.p[i]->due);
    }
    return first == UINT64_MAX ? -1 : first <= now ? 0 : (int)MIN(first - now, INT32_MAX);
}

void far__fire_due(struct far *f)
{
    uint64_t now = now_ms();
    struct far__wait *w;
    do {
        w = NULL;
        vec_foreach (it, &f->waits) {
            w = w == NULL && (*it)->due <= now ? *it : w;
        }
        if (w != NULL) { // its code may wait again: look from the beginning
            entry_wake_begin(&w->wait);
            wake(w, 0);
        }
    } while (w != NULL);
    while (timers_run(f)) {
        struct far__timer *first = NULL;
        vec_foreach (t, &f->timers) {
            if (!t->inside && t->due <= now && (first == NULL || t->due < first->due)) {
                first = t;
            }
        }
        if (first == NULL) {
            break;
        }
        first->inside = true;
        far__run(f, &(struct far__run){.fn = first->fn, .timer = first->id});
    }
}

void far__clock_fini(struct far *f)
{
    while (f->waits.n != 0) {
        wait_free(*vec_last(&f->waits));
    }
    vec_fini(&f->waits);
    vec_fini(&f->timers);
}

const struct lib_timers far__timers = {.add = lib_add, .cancel = lib_cancel, .sleep = lib_sleep};
