// on(NAME, [opts,] fn) registers a handler for anything that can happen; on_begin(fn), on_tool_call(fn), ... do so for one
// of the agent's points. All return a handle with :off().
//
//     a hook point        "tool_call", "on_tool_call"     ──> a hook of the unit
//     an event            "turn.completed", "turn.*"      ──> events.on
//     its own life        "plugin_start", "plugin_shutdown"

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"
#include "proto/events.h"

// ---- the unit's own start and shutdown --------------------------------------------------------

static void life_free(struct bind_reg *r)
{
    free(r);
}

static const struct bind_reg_ops life_ops[] = {
    [BIND_START] = {.what = "plugin_start",
                    .quota = QUOTA_EVENT,
                    .kind = GEN__KINDS,
                    .free = life_free},
    [BIND_SHUTDOWN] = {.what = "plugin_shutdown",
                       .quota = QUOTA_EVENT,
                       .kind = GEN__KINDS,
                       .free = life_free},
};

/// All handlers of one step of a unit's life, under way.
struct tell {
    enum bind_life which;
    size_t left;
    bool note;             // faults of handlers are noted with the unit, and do not end `call`
    struct gen_diag fault; // the first; its message is NULL when there is none
    struct gen_life_call *call;
};

static void tell_less(struct tell *t)
{
    assert(t->left > 0);
    if (--t->left != 0) {
        return;
    }
    gen_life_done(t->call, t->fault.message != NULL ? &t->fault : NULL);
    gen_diag_fini(&t->fault);
    free(t);
}

static void on_told(void *arg, const struct bind_result *r)
{
    struct tell *t = arg;
    if (r->fault != NULL && t->fault.message == NULL && !t->note) {
        t->fault = gen_diag_copy(r->fault);
        t->fault.code = t->which == BIND_START   ? DIAG_START_FAILED
                        : r->end == BIND_TIMEOUT ? DIAG_SHUTDOWN_TIMEOUT
                                                 : DIAG_SHUTDOWN_FAILED;
    }
    tell_less(t);
}

void bind_owner_tell(struct bind_owner *o, enum bind_life which, enum gen_reason why,
                     const struct gen_diag *own, bool note, struct gen_life_call *call)
{
    vec(vm_ref) fns = {0}; // handlers may register and take back
    struct tell *t = xcalloc(1, sizeof *t);
    *t = (struct tell){.which = which, .left = 1, .note = note, .call = call};
    if (own != NULL) {
        t->fault = *own;
    }
    for (const struct bind_reg *r = o->regs; r != NULL; r = r->next) {
        if (r->ops == &life_ops[which]) {
            vec_push(&fns, r->fn);
        }
    }
    for (size_t i = fns.n; i > 0; i--) { // the list has the newest first
        struct bind_call *c = bind_call_begin(o, fns.p[i - 1]);
        if (c == NULL) {
            continue;
        }
        if (!note) {
            bind__call_quiet(c);
        }
        bind__call_name(c, life_ops[which].what, NULL);
        lua_createtable(bind_call_stack(c), 0, 1);
        value_set_str(bind_call_stack(c), "reason", gen_reason_name(why));
        t->left++;
        bind_call_run(c, 1, o->bind->limits.start_ms, on_told, t);
    }
    vec_fini(&fns);
    tell_less(t);
}

// ---- functions of a table ---------------------------------------------------------------------

void bind__call_life(struct bind_owner *o, vm_ref value, const char *name, enum gen_code failed,
                     enum gen_code timeout, struct gen_diag *fault)
{
    if (vm_get_stats(o->vm).dead) {
        return; // no code can run there
    }
    struct entry en = {.owner = o->owner};
    lua_State *L = entry_begin(&en, o->vm);
    refs_push_field(L, value, name);
    if (lua_isfunction(L, -1) && entry_run(&en, 0) != ENTRY_DONE) {
        char *text = xasprintf("%s: %s", name, en.fault->message);
        struct gen_diag d = {.code = en.fault->code == FAULT_HOOK_TIMEOUT ? timeout : failed,
                             .origin = o->unit->origin,
                             .path = en.fault->path,
                             .line = en.fault->line,
                             .message = text};
        gen_diag_fini(fault);
        *fault = gen_diag_copy(&d);
        free(text);
    }
    entry_end(&en);
}

// ---- handles ----------------------------------------------------------------------------------

/// handle:off() of a hook. The handler is found by its order, which no other has.
static int l_hook_off(lua_State *L)
{
    uint64_t order = (uint64_t)lua_tointeger(L, lua_upvalueindex(1));
    struct gen *g = gen_current(bind_of(L)->o.engine);
    struct bind_owner *o = bind_owner_running(L);
    size_t n = g != NULL ? gen_count(g) : 0;
    for (size_t k = 0; k <= n;
         k++) { // the units that serve, and the one that runs: it may be staged
        struct gen_unit *u = k < n ? gen_at(g, k) : (o != NULL ? o->unit : NULL);
        for (size_t i = 0; u != NULL && i < gen_unit_count(u); i++) {
            const struct hook *h = gen_item_hook(gen_unit_at(u, i));
            if (h != NULL && h->terms.order == order) {
                return args_bool(L, gen_item_off(gen_unit_at(u, i), NULL) == 0);
            }
        }
    }
    return args_bool(L, false);
}

// ---- registering ------------------------------------------------------------------------------

/// on_x([opts,] fn): options at `first` or the function itself.
static int on_point(lua_State *L, const char *who, const struct hook_point *p, int first)
{
    struct gen_item *it;
    bool has_opts = lua_istable(L, first);
    int fn = has_opts ? first + 1 : first;
    struct lib_hook h = {.point = str_of(p->name)};
    lua_settop(L, fn);
    args_fn(L, fn, who);
    if (has_opts) {
        lib_hook_options(L, who, first, &h);
    }
    int refused = bind__hook_add(L, who, &h, p->kind, fn, &it);
    if (refused != 0) {
        return refused;
    }
    return bind__push_handle(L, l_hook_off, gen_item_hook(it)->terms.order);
}

static NORETURN void unknown(lua_State *L, struct str name)
{
    const char *names[EVENT__COUNT + 2 * POINT__COUNT + ARRAY_LEN(life_ops)];
    size_t n = 0;
    for (size_t i = 0; i < POINT__COUNT; i++) { // a point has two names
        names[n++] = hook_points[i].name;
        names[n++] = hook_points[i].name + strlen("on_");
    }
    for (size_t i = 0; i < EVENT__COUNT; i++) {
        names[n++] = event_infos[i].type;
    }
    for (size_t i = 0; i < ARRAY_LEN(life_ops); i++) {
        names[n++] = life_ops[i].what;
    }
    const char *near = str_nearest(name, names, n);
    luaL_error(L, "on: there is no hook point or event '%s'%s", name.p, args_near(L, near));
    abort(); // luaL_error() does not return
}

int bind__on(lua_State *L)
{
    struct str name = args_str(L, 1, "on", "the name");
    const struct hook_point *p = hook_point_find(name);
    if (p != NULL) {
        return on_point(L, "on", p, 2);
    }
    int fn = lua_istable(L, 2) ? 3 : 2;
    args_fn(L, fn, "on");
    bind__owner(L);
    lua_settop(L, fn);
    for (enum bind_life i = BIND_START; i <= BIND_SHUTDOWN; i++) {
        if (str_eqz(name, life_ops[i].what)) {
            struct bind_reg *r = xcalloc(1, sizeof *r);
            return bind__reg_add_handle(L, r, &life_ops[i], STR_NULL, fn);
        }
    }
    bool pattern = name.n > 1 && str_index(name, '*') + 1 == (ptrdiff_t)name.n; // it ends in `*`
    if (!pattern && !event_type_is_user(name) && !bind__is_hub_event(name)) {
        unknown(L, name);
    }
    return bind__events_on(L, name, fn, bind__reg_add_handle);
}

static int l_on_point(lua_State *L)
{
    const struct hook_point *p = &hook_points[lua_tointeger(L, lua_upvalueindex(1))];
    return on_point(L, p->name, p, 1);
}

int face_on(lua_State *L)
{
    lua_pushcfunction(L, bind__on);
    return 1;
}

void face_points(struct vm *vm)
{
    lua_State *L = vm_main(vm);
    lua_pushglobaltable(L);
    for (int i = 0; i < POINT__COUNT; i++) {
        lua_pushstring(L, hook_points[i].name);
        lua_pushinteger(L, i);
        lua_pushcclosure(L, l_on_point, 1);
        lua_rawset(L, -3);
    }
    lua_pop(L, 1);
}
