// Running one handler of a hook in its Lua state.
//
//     hook_run ── enter ──> entry ──┬── ends ──> results to answer ──> back in the C loop
//                                   └── waits ──> HOOK_LATER ── ends ──> hook_run_answer
//
// Within one Lua state arguments are passed as they are, tables by reference: modules of the hub pass objects with methods
// to each other. A handler of another state gets copies, and its answer is copied back. The agent's points have arguments
// of their own kind (agent_args.c).
//
// The memory that a running handler needs is reused for the next one: a chain of handlers that do not wait allocates
// nothing here.

#include <lauxlib.h>

#include "bind/agent_args.h"
#include "bind/hooks_int.h"
#include "lua/fault.h"

enum { ARGS_MAGIC = 0x61726773 };

struct handler {
    struct bind_owner *o;
    vm_ref fn;
    bool agent;  // of one of the agent's points
    bool warned; // was told that its change was dropped
};

/// One handler that is inside.
struct hooks__inside {
    struct entry en;
    struct hook_run *run;
    struct handler *handler;
    struct agent_args args;     // of the agent's points
    struct hooks__inside *next; // while it is spare
};

static void inside_end(struct hooks__inside *c)
{
    const struct bind_owner *o = c->handler->o;
    if (c->handler->agent) {
        agent_args_drop(&c->args, o->vm);
    }
    entry_end(&c->en);
    c->next = o->bind->spare;
    o->bind->spare = c;
}

// ---- arguments --------------------------------------------------------------------------------

void hooks__args_take(struct hooks__args *a, lua_State *L, int n)
{
    assert(n >= 0 && n <= HOOKS_ARGS_MAX);
    lua_createtable(L, n, 0);
    lua_insert(L, -n - 1);
    for (int i = n; i >= 1; i--) {
        lua_rawseti(L, -i - 1, i);
    }
    *a = (struct hooks__args){.magic = ARGS_MAGIC, .vm = vm_of(L), .n = n};
    a->table = luaL_ref(L, LUA_REGISTRYINDEX);
}

void hooks__args_of(struct hooks__args *a, const struct json *value)
{
    *a = (struct hooks__args){.magic = ARGS_MAGIC, .n = value != NULL};
    a->values = arena_alloc(&a->own, sizeof *a->values);
    a->values[0] = value;
}

static void drop_table(struct hooks__args *a)
{
    if (a->vm != NULL) {
        luaL_unref(vm_main(a->vm), LUA_REGISTRYINDEX, a->table);
    }
    a->vm = NULL;
}

void hooks__args_fini(struct hooks__args *a)
{
    drop_table(a);
    arena_fini(&a->own);
    a->magic = 0;
}

/// A copy of the value number `i`, which is in a Lua state; NULL when it is nil or cannot be copied.
static const struct json *read_copy(const struct hooks__args *a, int i, struct arena *to)
{
    lua_State *from = vm_main(a->vm);
    struct json *v = NULL;
    lua_rawgeti(from, LUA_REGISTRYINDEX, a->table);
    if (lua_rawgeti(from, -1, i) == LUA_TNIL || value_read(&v, to, from, -1, NULL) < 0) {
        v = NULL;
    }
    lua_pop(from, 2);
    return v;
}

void hooks__args_detach(struct hooks__args *a)
{
    const struct json **values = arena_calloc(&a->own, (size_t)a->n, sizeof *values);
    for (int i = 0; i < a->n && a->own.used <= VALUE_BYTES; i++) {
        values[i] =
            a->vm != NULL ? read_copy(a, i + 1, &a->own) : json_clone(&a->own, a->values[i]);
    }
    drop_table(a);
    a->values = values;
}

/// Push copies of the values, which are in another state; nil for what cannot be copied.
static void push_copies(const struct hooks__args *a, lua_State *L)
{
    for (int i = 1; i <= a->n; i++) {
        struct arena arena = {0};
        value_push(L, read_copy(a, i, &arena)); // NULL is nil
        arena_fini(&arena);
    }
}

int hooks__args_push(const struct hooks__args *a, lua_State *L)
{
    assert(a->magic == ARGS_MAGIC);
    if (a->vm == NULL) {
        for (int i = 0; i < a->n; i++) {
            value_push(L, a->values[i]); // NULL is nil
        }
    } else if (a->vm == vm_of(L)) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, a->table);
        for (int i = 1; i <= a->n; i++) {
            lua_rawgeti(L, -i, i);
        }
        lua_remove(L, -a->n - 1);
    } else {
        push_copies(a, L);
    }
    return a->n;
}

// ---- answers ----------------------------------------------------------------------------------

/// Replace the first `n` arguments by the first `n` values of `L`'s stack.
static void replace_own(const struct hooks__args *a, lua_State *L, int n)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, a->table);
    for (int i = 1; i <= n; i++) {
        lua_pushvalue(L, i);
        lua_rawseti(L, -2, i);
    }
    lua_pop(L, 1);
}

static void replace_copies(const struct hooks__args *a, struct json **values, int n)
{
    struct entry space = {0}; // so that nothing is refused while values are built
    lua_State *to = entry_begin(&space, a->vm);
    for (int i = 0; i < n; i++) {
        value_push(to, values[i]);
    }
    replace_own(a, to, n);
    entry_end(&space);
}

/// The same for values of another state than the arguments: all are read before any argument is replaced.
static int replace_others(struct hooks__args *a, lua_State *L, int n, struct err *e)
{
    struct json *values[HOOKS_ARGS_MAX] = {0};
    struct arena arena = {0};
    struct arena *kept = a->in != NULL ? a->in : &a->own;
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++) {
        struct arena *to = a->vm != NULL ? &arena : kept;
        rc = lua_isnil(L, i + 1) ? 0 : value_read(&values[i], to, L, i + 1, e);
    }
    if (rc == 0 && a->vm != NULL) {
        replace_copies(a, values, n);
    }
    for (int i = 0; i < n && rc == 0 && a->vm == NULL; i++) {
        a->values[i] = values[i];
    }
    arena_fini(&arena);
    return rc;
}

static enum hook_answer answer_vote(struct hook_run *run, lua_State *L, int n)
{
    static const struct {
        const char *word;
        enum hook_answer answer;
    } votes[] = {{"allow", HOOK_ALLOW}, {"ask", HOOK_ASK}, {"deny", HOOK_DENY}};
    const char *word = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
    for (size_t i = 0; i < ARRAY_LEN(votes); i++) {
        if (strcmp(word, votes[i].word) == 0) {
            bool reason = n > 1 && lua_type(L, 2) == LUA_TSTRING;
            hook_run_fault(run, NULL, 0, "%s", reason ? lua_tostring(L, 2) : "");
            return votes[i].answer;
        }
    }
    hook_run_fault(run, NULL, 0, "answers \"allow\", \"ask\", \"deny\" or nothing");
    return HOOK_FAILED;
}

/// Replace the first arguments by what a handler of a free event returned.
static enum hook_answer answer_free(struct hook_run *run, const struct entry *en)
{
    struct hooks__args *a = run->args;
    lua_State *L = en->L;
    struct err e = {0};
    int n = MIN(en->n_results, a->n);
    if (a->vm == vm_of(L)) {
        replace_own(a, L, n);
    } else if (replace_others(a, L, n, &e) < 0) {
        hook_run_fault(run, NULL, 0, "%s", e.msg);
        return HOOK_FAILED;
    }
    return HOOK_VALUE;
}

/// Note once that a handler changed its last argument but returned nothing.
static void warn_dropped(struct hooks__inside *c, lua_State *L)
{
    struct handler *h = c->handler;
    const char *what = h->warned ? NULL : agent_args_dropped(&c->args, h->o->vm, c->run->args);
    if (what == NULL) {
        return;
    }
    struct gen_diag d = {0};
    char text[128];
    h->warned = true;
    bind__place_of(L, h->fn, &d);
    snprintf(text, sizeof text, "changed `%s` but returned nothing: add `return %s`", what, what);
    bind__note(h->o, DIAG_CHANGE_DROPPED, d.path, d.line, text);
}

static enum hook_answer answer_of(struct hooks__inside *c)
{
    struct hook_run *run = c->run;
    lua_State *L = c->en.L;
    enum hook_kind kind = run->hook->kind;
    bool agent = c->handler->agent, nothing = c->en.n_results == 0 || lua_isnil(L, 1);
    struct err e;
    if (agent && record_touched(c->en.vm, c->args.ctx.id) && // almost never
        agent_ctx_take(&c->args.ctx, c->en.vm, &e) < 0) {
        hook_run_fault(run, NULL, 0, "%s", e.msg);
        return HOOK_FAILED;
    }
    if (agent && kind == HOOK_CHAIN && nothing) {
        warn_dropped(c, L);
    }
    if (kind == HOOK_OBSERVE || nothing) {
        return HOOK_KEEP;
    }
    if (kind == HOOK_VETO) {
        return answer_vote(run, L, c->en.n_results);
    }
    return agent ? agent_args_take(&c->args, run, L, 1) : answer_free(run, &c->en);
}

/// A new fault of the handler also goes to the unit's log. The set notes it with the unit.
static void log_fault(const struct hooks__inside *c, const struct gen_diag *fault)
{
    const char *point = c->run->hook->point;
    struct bind_owner *o = c->handler->o;
    char *message = xasprintf("hook '%s': %s", point, fault->message);
    struct gen_diag d = *fault;
    d.path = d.path != NULL ? d.path : o->unit->path;
    d.message = message;
    d.hook = point;
    if (!bind__is_noted(o, &d)) {
        bind__log_fault(o, "", &d);
    }
    free(message);
}

/// Report the handler's fault to the run, with its traceback.
static enum hook_answer fault_of(struct hooks__inside *c)
{
    const struct fault *f = c->en.fault;
    hook_run_fault(c->run, f->path, f->line, "%s", f->message);
    hook_run_traceback(c->run, f->traceback);
    if (f->code == FAULT_STALE_HANDLE) {
        return HOOK_STALE;
    }
    struct gen_diag d = bind__diag_of(f);
    log_fault(c, &d);
    return f->code == FAULT_HOOK_TIMEOUT ? HOOK_TIMEOUT : HOOK_FAILED;
}

/// An answer that its point does not take has no line of its own: name the handler's.
static void place_bad_answer(struct hooks__inside *c)
{
    char why[sizeof c->run->fault.msg];
    struct gen_diag d = {.code = DIAG_HOOK_FAILED, .message = why};
    snprintf(why, sizeof why, "%s", c->run->fault.msg);
    bind__place_of(c->en.L, c->handler->fn, &d);
    hook_run_fault(c->run, d.path, d.line, "%s", why);
    log_fault(c, &d);
}

static enum hook_answer leave(struct hooks__inside *c, enum entry_status status)
{
    enum hook_answer answer = status == ENTRY_DONE ? answer_of(c) : fault_of(c);
    if (status == ENTRY_DONE && answer == HOOK_FAILED) {
        place_bad_answer(c);
    }
    inside_end(c);
    return answer;
}

// ---- the target -------------------------------------------------------------------------------

static void on_entry_done(struct entry *en, enum entry_status status)
{
    struct hooks__inside *c = container_of(en, struct hooks__inside, en);
    struct hook_run *run = c->run;
    hook_run_answer(run, leave(c, status));
}

static enum hook_answer enter(void *data, struct hook_run *run)
{
    struct handler *h = data;
    struct bind *b = h->o->bind;
    if (b->stopped) {
        return HOOK_KEEP;
    }
    struct hooks__inside *c = b->spare;
    if (c == NULL) {
        c = xcalloc(1, sizeof *c);
    } else {
        b->spare = c->next;
        c->en = (struct entry){0};
    }
    c->run = run;
    c->handler = h;
    c->en.owner = h->o->owner;
    c->en.budget_ms = MIN(b->limits.lua_ms, run->timeout_ms);
    c->en.done = run->may_wait ? on_entry_done : NULL;
    c->en.now = run->since_ns;
    lua_State *L = entry_begin(&c->en, h->o->vm);
    if (!h->agent) {
        lua_checkstack(L, HOOKS_ARGS_MAX + 8); // a stack that is no larger than it must be is cheap
    }
    refs_push(L, h->fn);
    int n = h->agent ? agent_args_push(&c->args, L, b, run->args) : hooks__args_push(run->args, L);
    enum entry_status status = entry_run(&c->en, n);
    if (status == ENTRY_WAITING) {
        run->target_data = c;
        return HOOK_LATER;
    }
    return leave(c, status);
}

static void cancel(void *data, struct hook_run *run)
{
    (void)data;
    inside_end(run->target_data);
}

void bind__hooks_close(struct bind *b)
{
    while (b->spare != NULL) {
        struct hooks__inside *c = b->spare;
        b->spare = c->next;
        free(c);
    }
}

void *hooks__handler_new(lua_State *L, struct bind_owner *o, bool agent)
{
    struct handler *h = xcalloc(1, sizeof *h);
    h->o = o;
    h->agent = agent;
    h->fn = refs_take(L, o->owner);
    return h;
}

void hooks__handler_free(void *data)
{
    struct handler *h = data;
    bind__quota_give(h->o, QUOTA_HOOK, HOOKS_BYTES);
    refs_drop(h->o->vm, h->fn);
    free(h);
}

const struct hook_target hooks__target = {
    .enter = enter, .cancel = cancel, .release = hooks__handler_free};
