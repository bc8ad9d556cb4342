// Time and waiting: the library `timer`, and entries that are suspended.
//
// Timers begin when the version does (the hub says plugin_start), not when the file loads: a file that
// is only tried must not act. Until then `due` is how long to wait from there. Once the hub said
// shutdown no timer fires any more; what sleeps inside an open id goes on.
//
// Everything is a small array that is looked through: there are at most a few hundred.

#include <time.h>

#include "base/time.h"
#include "host/host_int.h"

static const double SECONDS_MAX = 1e9;

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

static uint64_t check_ms(lua_State *L, int arg)
{
    lua_Number s = luaL_checknumber(L, arg);
    luaL_argcheck(L, s >= 0 && s <= SECONDS_MAX, arg, "a number of seconds expected");
    return (uint64_t)(s * 1000);
}

static int add_timer(lua_State *L, uint64_t ms, uint64_t every_ms)
{
    struct far *f = far__of(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    if (f->timers.n >= FAR__TIMERS) {
        return luaL_error(L, "more than %d timers", FAR__TIMERS);
    }
    lua_settop(L, 2);
    const struct far__timer t = {
        .id = ++f->last_timer,
        .every_ms = every_ms,
        .due = ms + (f->started ? now_ms() : 0),
        .fn = refs_take(L, f->owner),
    };
    vec_push(&f->timers, t);
    lua_pushinteger(L, t.id);
    return 1;
}

static int timer_after(lua_State *L)
{
    return add_timer(L, check_ms(L, 1), 0);
}

static int timer_every(lua_State *L)
{
    uint64_t ms = MAX(check_ms(L, 1), FAR__TIMER_MIN_MS);
    return add_timer(L, ms, ms);
}

static int timer_cancel(lua_State *L)
{
    struct far *f = far__of(L);
    lua_Integer id = luaL_checkinteger(L, 1);
    for (size_t i = 0; i < f->timers.n; i++) {
        if (f->timers.p[i].id == id) {
            refs_drop(f->vm, f->timers.p[i].fn);
            vec_remove(&f->timers, i);
            lua_pushboolean(L, true);
            return 1;
        }
    }
    lua_pushboolean(L, false);
    return 1;
}

/// The timer that is due first at `now`; NULL for none.
static struct far__timer *due_timer(struct far *f, uint64_t now)
{
    struct far__timer *first = NULL;
    vec_foreach (t, &f->timers) {
        if (t->due <= now && (first == NULL || t->due < first->due)) {
            first = t;
        }
    }
    return timers_run(f) ? first : NULL;
}

/// Its place in the array is given up, or its next time set, before its code runs.
static void fire(struct far *f, struct far__timer *t, uint64_t now)
{
    vm_ref fn = t->fn;
    bool once = t->every_ms == 0;
    if (once) {
        vec_remove(&f->timers, t - f->timers.p);
    } else {
        t->due = now + t->every_ms;
    }
    far__run(f, &(struct far__run){.fn = fn});
    if (once) {
        refs_drop(f->vm, fn);
    }
}

// ---- waiting -------------------------------------------------------------------------------

static void wait_unlink(struct far__wait *w)
{
    struct far *f = w->far;
    for (size_t i = 0; i < f->waits.n; i++) {
        if (f->waits.p[i] == w) {
            vec_remove(&f->waits, i);
            return;
        }
    }
}

static void wait_free(struct far__wait *w)
{
    wait_unlink(w);
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

static int timer_sleep(lua_State *L)
{
    uint64_t ms = check_ms(L, 1);
    entry_check_wait(L);
    return suspend(L, now_ms() + ms, 0);
}

int far__wait_call(lua_State *L, int64_t id)
{
    return suspend(L, UINT64_MAX, id);
}

static struct far__wait *due_wait(struct far *f, uint64_t now)
{
    vec_foreach (w, &f->waits) {
        if ((*w)->due <= now) {
            return *w;
        }
    }
    return NULL;
}

/// Go on with `n` values that were pushed on what entry_wake_begin() gave.
static void wake(struct far__wait *w, int n)
{
    wait_unlink(w); // first: the code that runs may wait again
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
        first = MIN(first, f->timers.p[i].due);
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
    struct far__timer *t;
    while ((w = due_wait(f, now)) != NULL) {
        entry_wake_begin(&w->wait);
        wake(w, 0);
    }
    while ((t = due_timer(f, now)) != NULL) {
        fire(f, t, now);
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

int far__open_timer(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"after", timer_after}, {"every", timer_every}, {"cancel", timer_cancel},
        {"sleep", timer_sleep}, {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}
