// Hooks of Lua code in the hub: the backend of the library `hooks` (lua/lib_hooks.c), and the functions that only the hub
// has: notify, call, enable, disable, list.
//
// The registry is in C (hook/, gen/): a handler is an item of the unit whose code registered it, and a dispatch runs on the
// current generation. notify() runs observers and returns without waiting for handlers that wait. call() runs interceptors
// and returns the arguments as they left them; where the calling code may not wait, its handlers may not either.
//
//     notify(e, ...) ──> dispatch ── handlers ──> freed when the last has ended
//     call(e, ...)   ──> dispatch ── handlers ──> values, at once or when the last has ended
//
// A dispatch may outlive the Lua state that its arguments come from: a plugin notifies while it loads, and its load fails. So
// the arguments of those that wait are copied before a state is closed.
//
// The agent's own points can be registered for but not dispatched from Lua.

#include <lauxlib.h>

#include "bind/faces.h"
#include "bind/hooks_int.h"
#include "hook/hook.h"

struct bind__dispatch {
    struct bind *bind;
    struct hook_run run;
    struct hooks__args args;
    struct entry_wait wait; // of the code that called; en NULL: nobody waits
    bind_answer *answer;    // of bind_ask(); NULL: it is not that
    void *answer_arg;
    struct bind__dispatch *prev, *next;
};

// ---- registering ------------------------------------------------------------------------------

int bind__hook_add(lua_State *L, const char *who, const struct lib_hook *h, enum hook_kind kind,
                   int fn, struct gen_item **out)
{
    struct bind_owner *o = bind__owner(L);
    struct err e = {0};
    struct hook_spec spec = {
        .point = h->point,
        .kind = kind,
        .name = h->name,
        .filter = h->tool,
        .terms = {.priority = h->priority,
                  .timeout_ms = h->timeout_ms,
                  .on_error = h->block ? HOOK_BLOCK : HOOK_CONTINUE,
                  .limit_ms = &o->bind->limits.hook_ms,
                  .target = &hooks__target},
    };
    int refused = bind__quota_take(L, QUOTA_HOOK, HOOKS_BYTES, who);
    if (refused != 0) {
        return refused;
    }
    lua_pushvalue(L, fn);
    spec.terms.data = hooks__handler_new(L, o, hook_point_find(spec.point) != NULL);
    if (gen_unit_hook(o->unit, &spec, out, &e) < 0) {
        hooks__handler_free(spec.terms.data);
        return args_fail(L, "%s: %s", who, e.msg);
    }
    return 0;
}

static int lib_add(lua_State *L, const char *who, const struct lib_hook *h)
{
    int refused = bind__hook_add(L, who, h, h->chain ? HOOK_CHAIN : HOOK_OBSERVE, 3, NULL);
    if (refused != 0) {
        return refused;
    }
    return args_bool(L, true);
}

// ---- removing and switching ----------------------------------------------------------------

static struct str point_name(struct str event)
{
    const struct hook_point *p = hook_point_find(event);
    return p != NULL ? str_of(p->name) : event;
}

static struct gen_item *item_in(struct gen_unit *u, struct str point, enum hook_kind kind,
                                struct str name)
{
    for (size_t i = 0; i < gen_unit_count(u); i++) {
        const struct hook *h = gen_item_hook(gen_unit_at(u, i));
        if (h != NULL && h->kind == kind && h->name != NULL && str_eqz(point, h->point) &&
            str_eqz(name, h->name)) {
            return gen_unit_at(u, i);
        }
    }
    return NULL;
}

/// The handler of that name: one of the running unit, which may be staged, or, for the hub's own modules, of any unit. A
/// plugin reaches only its own handlers: it cannot switch off what another one enforces.
static struct gen_item *item_find(lua_State *L, struct str point, enum hook_kind kind,
                                  struct str name)
{
    struct bind_owner *o = bind_owner_running(L);
    struct gen *g = gen_current(bind_of(L)->o.engine);
    struct gen_item *it = o != NULL ? item_in(o->unit, point, kind, name) : NULL;
    if (it != NULL || g == NULL || (o != NULL && o->plugin != NULL)) {
        return it;
    }
    const struct hook *h = hook_set_find(gen_hooks(g), point, kind, name);
    return h != NULL ? item_in(h->terms.owner, point, kind, name) : NULL;
}

static bool lib_off(lua_State *L, const struct lib_hook *h)
{
    enum hook_kind kind = h->chain ? HOOK_CHAIN : HOOK_OBSERVE;
    struct gen_item *it = item_find(L, point_name(h->point), kind, h->name);
    return it != NULL && gen_item_off(it, NULL) == 0;
}

const struct lib_hooks bind__hooks = {.add = lib_add, .off = lib_off};

static int switch_to(lua_State *L, const char *who, bool on)
{
    struct str point = point_name(args_str(L, 1, who, "event"));
    struct str name = args_str(L, 2, who, "name");
    bool found = false;
    for (enum hook_kind kind = 0; kind < HOOK__KINDS; kind++) {
        struct gen_item *it = item_find(L, point, kind, name);
        if (it != NULL) {
            hook_enable(gen_item_hook(it), on);
            found = true;
        }
    }
    return args_bool(L, found);
}

static int l_enable(lua_State *L)
{
    return switch_to(L, "hooks.enable", true);
}

static int l_disable(lua_State *L)
{
    return switch_to(L, "hooks.disable", false);
}

// ---- dispatching ------------------------------------------------------------------------------

static void dispatch_free(struct bind__dispatch *d)
{
    hooks__args_fini(&d->args);
    free(d);
}

/// Why a handler refused it; NULL: none did.
static const char *refusal_of(const struct bind__dispatch *d)
{
    if (d->run.result != HOOK_DENY) {
        return NULL;
    }
    return d->run.fault.msg[0] != '\0' ? d->run.fault.msg : "refused by a handler";
}

/// What call() gives: the arguments, or nil and why it was refused.
static int push_values(lua_State *L, const struct bind__dispatch *d)
{
    const char *refused = refusal_of(d);
    return refused != NULL ? args_fail(L, "%s", refused) : hooks__args_push(&d->args, L);
}

/// Tell C how its question was answered.
static void give_answer(const struct bind__dispatch *d)
{
    const char *refused = refusal_of(d);
    d->answer(d->answer_arg, refused != NULL ? NULL : d->args.values[0], refused);
}

static void on_run_done(struct hook_run *run, void *arg)
{
    (void)run;
    struct bind__dispatch *d = arg;
    list_remove(&d->bind->waiting, d);
    if (d->answer != NULL) {
        give_answer(d);
    }
    if (d->wait.en != NULL) {
        lua_State *L = entry_wake_begin(&d->wait);
        lua_checkstack(L, HOOKS_ARGS_MAX + 8);
        entry_wake(&d->wait, push_values(L, d));
    }
    dispatch_free(d);
}

static void on_caller_gone(struct entry_wait *w)
{
    struct bind__dispatch *d = container_of(w, struct bind__dispatch, wait);
    hook_run_cancel(&d->run);
    list_remove(&d->bind->waiting, d);
    dispatch_free(d);
}

static const struct hook_list *list_of(struct bind *b, struct str event, enum hook_kind kind)
{
    const struct gen *g = gen_current(b->o.engine);
    return g != NULL ? hook_set_get(gen_hooks(g), event, kind) : NULL;
}

static bool dispatch_start(struct bind__dispatch *d, const struct hook_list *list, bool may_wait)
{
    struct hook_run_opts opts = {
        .list = list,
        .loop = d->bind->o.hub->loop,
        .args = &d->args,
        .may_wait = may_wait,
        .done = on_run_done,
        .arg = d,
    };
    if (hook_run_start(&d->run, &opts)) {
        return true;
    }
    list_add(&d->bind->waiting, d);
    return false;
}

/// The event at 1, followed by its arguments; raises unless Lua code may dispatch it.
static struct str check_event(lua_State *L, const char *who)
{
    struct str event = args_str(L, 1, who, "event");
    if (hook_point_find(event) != NULL) {
        luaL_error(L, "%s: '%s' is a point of the agent: modules cannot raise it", who, event.p);
    }
    if (lua_gettop(L) - 1 > HOOKS_ARGS_MAX) {
        luaL_error(L, "%s: more than %d arguments", who, HOOKS_ARGS_MAX);
    }
    luaL_checkstack(L, HOOKS_ARGS_MAX + 8, who);
    return event;
}

static struct bind__dispatch *dispatch_new(lua_State *L)
{
    struct hooks__args args;
    hooks__args_take(&args, L, lua_gettop(L) - 1);
    struct bind__dispatch *d = xcalloc(1, sizeof *d);
    d->bind = bind_of(L);
    d->args = args;
    return d;
}

static int l_notify(lua_State *L)
{
    struct str event = check_event(L, "hooks.notify");
    const struct hook_list *list = list_of(bind_of(L), event, HOOK_OBSERVE);
    size_t ran = 0;
    if (list != NULL) {
        struct bind__dispatch *d = dispatch_new(L);
        bool over = dispatch_start(d, list, true);
        ran = d->run.ran;
        if (over) {
            dispatch_free(d);
        }
    }
    lua_pushinteger(L, (lua_Integer)ran);
    return 1;
}

static int l_call(lua_State *L)
{
    struct str event = check_event(L, "hooks.call");
    const struct hook_list *list = list_of(bind_of(L), event, HOOK_CHAIN);
    if (list == NULL) {
        return lua_gettop(L) - 1;
    }
    const struct entry *en = entry_running(vm_of(L));
    bool may_wait = en != NULL && en->done != NULL && lua_isyieldable(L);
    struct bind__dispatch *d = dispatch_new(L);
    d->wait.cancel = on_caller_gone;
    if (!dispatch_start(d, list, may_wait)) {
        entry_check_wait(L); // if this raises, the dispatch continues without a waiter
        return entry_wait(L, &d->wait);
    }
    struct bind__dispatch copy = *d;
    free(d);
    int n = push_values(L, &copy);
    hooks__args_fini(&copy.args);
    return n;
}

void bind__dispatches_cancel(struct bind *b)
{
    struct bind__dispatch *d = b->waiting;
    while (d != NULL) {
        if (d->wait.en != NULL) { // it ends with the code that waits for it
            d = d->next;
            continue;
        }
        hook_run_cancel(&d->run);
        list_remove(&b->waiting, d);
        if (d->answer != NULL) {
            d->answer(d->answer_arg, NULL, "the hub is stopping");
        }
        dispatch_free(d);
        d = b->waiting; // from the start: others that the cancelled handler waited for are gone, too
    }
}

void bind__dispatches_leave(struct bind *b, const struct vm *vm)
{
    for (struct bind__dispatch *d = b->waiting; d != NULL; d = d->next) {
        if (d->args.vm == vm) {
            hooks__args_detach(&d->args);
        }
    }
}

void bind_notify(struct bind *b, const char *event, const struct json *value)
{
    const struct hook_list *list = list_of(b, str_of(event), HOOK_OBSERVE);
    if (list == NULL || hook_point_find(str_of(event)) != NULL) {
        return;
    }
    struct bind__dispatch *d = xcalloc(1, sizeof *d);
    d->bind = b;
    hooks__args_of(&d->args, value);
    if (dispatch_start(d, list, true)) {
        dispatch_free(d);
    } else {
        hooks__args_detach(&d->args); // `value` is borrowed for this call only
    }
}

void bind_ask(struct bind *b, const char *event, const struct json *value, struct arena *in,
              bind_answer *answer, void *arg)
{
    const struct hook_list *list = list_of(b, str_of(event), HOOK_CHAIN);
    assert(hook_point_find(str_of(event)) == NULL && value != NULL);
    if (list == NULL) {
        answer(arg, value, NULL);
        return;
    }
    struct bind__dispatch *d = xcalloc(1, sizeof *d);
    *d = (struct bind__dispatch){.bind = b, .answer = answer, .answer_arg = arg};
    hooks__args_of(&d->args, value);
    d->args.in = in;
    if (dispatch_start(d, list, true)) {
        give_answer(d);
        dispatch_free(d);
    }
}

// ---- list -------------------------------------------------------------------------------------

static int l_list(lua_State *L)
{
    struct str event = STR_NULL;
    lua_Integer n = 0;
    size_t at = 0;
    const struct hook_list *list;
    const struct gen *g = gen_current(bind_of(L)->o.engine);
    if (!lua_isnoneornil(L, 1)) {
        event = point_name(args_str(L, 1, "hooks.list", "event"));
    }
    lua_newtable(L);
    value_mark_array(L);
    while (g != NULL && (list = hook_set_next(gen_hooks(g), &at)) != NULL) {
        for (size_t i = 0; i < list->n && (event.p == NULL || str_eqz(event, list->point)); i++) {
            const struct hook *h = list->hooks[i];
            const struct gen_unit *u = h->terms.owner;
            lua_createtable(L, 0, 13);
            value_set_str(L, "event", h->point);
            value_set_str(L, "kind", hook_kind_name(h->kind));
            value_set_str(L, "name", h->name);
            value_set_str(L, "tool", h->filter); // NULL is nil
            value_set_str(L, "unit", u->name);
            value_set_str(L, "last_error", h->last_error);
            value_set_int(L, "count", (lua_Integer)h->stats.count);
            value_set_int(L, "errors", (lua_Integer)h->stats.errors);
            value_set_int(L, "p50_us", (lua_Integer)hook_stats_percentile(&h->stats, 50) / 1000);
            value_set_int(L, "p99_us", (lua_Integer)hook_stats_percentile(&h->stats, 99) / 1000);
            value_set_int(L, "timeout_ms", h->terms.timeout_ms);
            value_set_int(L, "priority", h->terms.priority);
            value_set_bool(L, "enabled", hook_is_live(h));
            lua_rawseti(L, -2, ++n);
        }
    }
    return 1;
}

void face_hooks(struct vm *vm)
{
    static const luaL_Reg functions[] = {
        {"notify", l_notify},   {"call", l_call}, {"enable", l_enable},
        {"disable", l_disable}, {"list", l_list},
    };
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        vm_replace(vm, "hooks", functions[i].name, functions[i].func);
    }
}
