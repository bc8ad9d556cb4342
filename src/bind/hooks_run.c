// Running one handler of a hook in its Lua state.
//
//     hook_run ── enter ──> entry ──┬── ends ──> results to answer ──> back in the C loop
//                                   └── waits ──> HOOK_LATER ── ends ──> hook_run_answer
//
// Inside one state arguments are handed over as they are, tables by reference: modules of the hub
// pass objects with methods to each other. To a handler of another state they are copied, and so is
// what it answers.

#include <lauxlib.h>

#include "bind/hooks_int.h"
#include "lua/fault.h"

enum { ARGS_MAGIC = 0x61726773 };

struct handler {
    struct bind_owner *o;
    vm_ref fn;
};

/// One handler that is inside.
struct inside {
    struct entry en;
    struct hook_run *run;
};

// ---- arguments --------------------------------------------------------------------------------

void hooks__args_take(struct hooks__args *a, lua_State *L, int n)
{
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
    *a = (struct hooks__args){.magic = ARGS_MAGIC, .n = value != NULL, .value = value};
}

void hooks__args_fini(struct hooks__args *a)
{
    if (a->vm != NULL) {
        luaL_unref(vm_main(a->vm), LUA_REGISTRYINDEX, a->table);
    }
    a->magic = 0;
}

/// Push the values that lie in another state as copies; what cannot be copied is nil.
static void push_copies(const struct hooks__args *a, lua_State *L)
{
    lua_State *from = vm_main(a->vm);
    struct arena arena;
    lua_rawgeti(from, LUA_REGISTRYINDEX, a->table);
    for (int i = 1; i <= a->n; i++) {
        struct json *v = NULL;
        arena_init(&arena);
        bool is_nil = lua_rawgeti(from, -1, i) == LUA_TNIL;
        if (!is_nil && value_read(&v, &arena, from, -1, NULL) == 0) {
            value_push(L, v);
        } else {
            lua_pushnil(L);
        }
        lua_pop(from, 1);
        arena_fini(&arena);
    }
    lua_pop(from, 1);
}

int hooks__args_push(const struct hooks__args *a, lua_State *L)
{
    assert(a->magic == ARGS_MAGIC);
    if (a->vm == NULL && a->n == 1) {
        value_push(L, a->value);
    } else if (a->vm == vm_of(L)) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, a->table);
        for (int i = 1; i <= a->n; i++) {
            lua_rawgeti(L, -i, i);
        }
        lua_remove(L, -a->n - 1);
    } else if (a->vm != NULL) {
        push_copies(a, L);
    }
    return a->n;
}

// ---- answers ----------------------------------------------------------------------------------

/// Put the first `n` values of `L`'s stack in the place of the first arguments.
static void replace_own(const struct hooks__args *a, lua_State *L, int n)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, a->table);
    for (int i = 1; i <= n; i++) {
        lua_pushvalue(L, i);
        lua_rawseti(L, -2, i);
    }
    lua_pop(L, 1);
}

/// The same from another state: all are read before any is replaced.
static int replace_copies(const struct hooks__args *a, lua_State *L, int n, struct err *e)
{
    struct json *values[HOOKS_ARGS_MAX] = {0};
    struct arena arena;
    int rc = 0;
    arena_init(&arena);
    for (int i = 0; i < n && rc == 0; i++) {
        rc = lua_isnil(L, i + 1) ? 0 : value_read(&values[i], &arena, L, i + 1, e);
    }
    if (rc == 0) {
        struct entry space = {0}; // so that nothing is refused while values are built
        lua_State *to = entry_begin(&space, a->vm);
        for (int i = 0; i < n; i++) {
            value_push(to, values[i]);
        }
        replace_own(a, to, n);
        entry_end(&space);
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

static enum hook_answer answer_of(struct inside *c)
{
    struct hook_run *run = c->run;
    const struct hooks__args *a = run->args;
    lua_State *L = c->en.L;
    struct err e = {0};
    enum hook_kind kind = run->hook->kind;
    if (kind == HOOK_OBSERVE || c->en.n_results == 0 || lua_isnil(L, 1)) {
        return HOOK_KEEP;
    }
    if (kind == HOOK_VETO) {
        return answer_vote(run, L, c->en.n_results);
    }
    int n = MIN(c->en.n_results, a->n);
    if (a->vm == vm_of(L)) {
        replace_own(a, L, n);
    } else if (a->vm != NULL && replace_copies(a, L, n, &e) < 0) {
        hook_run_fault(run, NULL, 0, "%s", e.msg);
        return HOOK_FAILED;
    }
    return HOOK_VALUE;
}

static enum hook_answer fault_of(struct inside *c)
{
    const struct fault *f = c->en.fault;
    hook_run_fault(c->run, f->path, f->line, "%s", f->message);
    return f->code == FAULT_HOOK_TIMEOUT ? HOOK_TIMEOUT : HOOK_FAILED;
}

static enum hook_answer leave(struct inside *c, enum entry_status status)
{
    enum hook_answer answer = status == ENTRY_DONE ? answer_of(c) : fault_of(c);
    entry_end(&c->en);
    free(c);
    return answer;
}

// ---- the target -------------------------------------------------------------------------------

static void on_entry_done(struct entry *en, enum entry_status status)
{
    struct inside *c = container_of(en, struct inside, en);
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
    struct inside *c = xcalloc(1, sizeof *c);
    c->run = run;
    c->en.owner = h->o->owner;
    c->en.budget_ms = MIN(bind__limit(b, "limits.lua_ms"), run->timeout_ms);
    c->en.done = run->may_wait ? on_entry_done : NULL;
    lua_State *L = entry_begin(&c->en, h->o->vm);
    lua_checkstack(L, HOOKS_ARGS_MAX + 8);
    refs_push(L, h->fn);
    enum entry_status status = entry_run(&c->en, hooks__args_push(run->args, L));
    if (status == ENTRY_WAITING) {
        run->target_data = c;
        return HOOK_LATER;
    }
    return leave(c, status);
}

static void cancel(void *data, struct hook_run *run)
{
    (void)data;
    struct inside *c = run->target_data;
    entry_end(&c->en);
    free(c);
}

void *hooks__handler_new(lua_State *L, struct bind_owner *o)
{
    struct handler *h = xmalloc(sizeof *h);
    h->o = o;
    h->fn = refs_take(L, o->owner);
    return h;
}

void hooks__handler_free(void *data)
{
    struct handler *h = data;
    refs_drop(h->o->vm, h->fn);
    free(h);
}

const struct hook_target hooks__target = {
    .enter = enter, .cancel = cancel, .release = hooks__handler_free};
