// Entries: running, suspending, resuming and ending calls into a state.
//
//     entry_begin ── push ── entry_run ──┬── DONE / FAILED ──────────── entry_end
//                                        └── WAITING ─ (loop) ─ wake ──┬─ done() ─ entry_end
//                                                 ^                    │
//                                                 └──── waits again ───┘
//
// Each entry has a coroutine of its own, taken from a few that are kept: starting a finished
// coroutine again costs what a protected call costs. The coroutine of an entry that a limit ended
// is not kept, because its hook may be switched off for good (limit.c).
//
// Waiting passes through coroutines that Lua code made itself: their resume yields in turn (see
// corout.c), until the entry's own coroutine yields here. It cannot pass through C functions that
// call back (table.sort, string.gsub), and is not let through metamethods.
//
// Entries nest: a C function called by Lua may run another entry of the same state. The inner one
// gets no more time than is left of the outer one's budget.
//
// Invariants:
//   - `vm->active` is set exactly while Lua code of that entry runs (or C code called by it).
//   - an entry between begin and end is in its state's list, and `vm->lenient` counts those whose
//     stack C code is working on.

#include "lua/entry.h"

#include "base/list.h"
#include "base/time.h"
#include "lua/vm_int.h"

enum phase { PHASE_NONE, PHASE_OPEN, PHASE_WAITING }; // open: C code works on its stack

// ---- running --------------------------------------------------------------------------------

/// What must be restored when the code has run.
struct outside {
    struct entry *active;
    struct entry *any; // of any state: what the watchdog saw
    lua_State *running;
    struct vm__level *level;
    unsigned lenient;
};

static struct outside enter(struct entry *en)
{
    struct vm *vm = en->vm;
    struct entry *any = atomic_load_explicit(&watchdog__now.entry, memory_order_relaxed);
    struct outside was = {vm->active, any, vm->running, vm->level, vm->lenient};
    uint64_t now = en->now != 0 ? en->now : time_mono_ns();
    en->now = 0; // what comes after a wait has its own beginning
    en->looked_ns = en->forgiven_ns = 0;
    en->deadline = now + (uint64_t)en->budget_ms * 1000000;
    if (was.active != NULL && was.active->deadline < en->deadline) {
        en->deadline = was.active->deadline;
    }
    en->up = was.active;
    vm->active = en;
    vm->running = en->L;
    vm->level = NULL;
    vm->lenient = 0;
    limit__arm(vm, en->L);
    watchdog__see(en);
    return was;
}

static void leave(struct vm *vm, struct outside was)
{
    vm->active = was.active;
    vm->running = was.running;
    vm->level = was.level;
    vm->lenient = was.lenient;
    watchdog__see(was.any);
    if (was.active != NULL) {
        limit__arm(vm, was.running); // what the inner code pressed for is due there
    }
}

/// The text of an error value, without running any code for it.
static struct str error_text(lua_State *L)
{
    if (lua_type(L, -1) == LUA_TTABLE) {
        lua_pushliteral(L, "message");
        lua_rawget(L, -2);
        if (lua_type(L, -1) != LUA_TSTRING) {
            lua_pop(L, 1);
        }
    }
    if (!lua_isstring(L, -1)) {
        lua_pushfstring(L, "error value is a %s", luaL_typename(L, -1));
    }
    size_t n;
    const char *p = lua_tolstring(L, -1, &n);
    return (struct str){p, n};
}

/// Run the to-be-closed variables that an error or a cancel left open, under the budget. After a
/// trip they are left alone, and so is the stack: even lua_settop() would run them.
static void close_pending(struct entry *en)
{
    if (en->trip != TRIP_NONE) {
        return;
    }
    if (lua_resetthread(en->L) == LUA_ERRMEM && en->trip == TRIP_NONE) {
        en->trip = (unsigned char)limit__refused(en->vm);
        limit__report(en);
    }
}

/// After a trip the fault was reported where it happened.
static enum entry_status finish(struct entry *en, int status)
{
    if (status == LUA_ERRMEM && en->trip == TRIP_NONE) {
        en->trip = (unsigned char)limit__refused(en->vm);
        limit__report(en);
    }
    if (status == LUA_OK) {
        return ENTRY_DONE;
    }
    if (status == LUA_YIELD && en->wait != NULL) {
        return ENTRY_WAITING;
    }
    if (en->trip == TRIP_NONE) {
        enum fault_code code = en->kind == ENTRY_LOAD ? FAULT_LOAD_FAILED : FAULT_HOOK_FAILED;
        en->vm->lenient++;
        lua_checkstack(en->L, 4);
        en->fault = fault__of_stack(code, en->L, error_text(en->L));
        en->vm->lenient--;
    }
    close_pending(en);
    return ENTRY_FAILED;
}

static enum entry_status resume(struct entry *en, int nargs)
{
    struct vm *vm = en->vm;
    struct outside was = enter(en);
    en->n_results = 0;
    int status = lua_resume(en->L, was.running, nargs, &en->n_results);
    enum entry_status s = finish(en, status);
    leave(vm, was);
    if (s == ENTRY_WAITING) {
        en->phase = PHASE_WAITING;
        vm->lenient--;
    }
    return s;
}

/// A dead state runs no code.
static enum entry_status refuse(struct entry *en, const char *why)
{
    fault_free(en->fault);
    en->fault = fault__of_text(FAULT_STALE_HANDLE, NULL, str_of(why));
    return ENTRY_FAILED;
}

// ---- waiting --------------------------------------------------------------------------------

/// The entry waits no longer; tell its wait.
static void cancel_wait(struct entry *en)
{
    struct entry_wait *w = en->wait;
    en->wait = NULL;
    w->en = NULL;
    if (w->cancel != NULL) {
        w->cancel(w);
    }
}

static bool in_metamethod(lua_State *L)
{
    lua_Debug ar;
    for (int i = 0; lua_getstack(L, i, &ar); i++) {
        lua_getinfo(L, "n", &ar);
        limit__tick(L, vm_of(L), 8 + (size_t)i); // to find the i-th call Lua goes i steps
        if (strcmp(ar.namewhat, "metamethod") == 0) {
            return true;
        }
    }
    return false;
}

// ---- public ---------------------------------------------------------------------------------

lua_State *entry_begin(struct entry *en, struct vm *vm)
{
    assert(en->phase == PHASE_NONE);
    en->vm = vm;
    if (en->budget_ms == 0) {
        en->budget_ms = en->kind == ENTRY_LOAD ? VM_LOAD_BUDGET_MS : VM_BUDGET_MS;
    }
    vm->lenient++;
    en->phase = PHASE_OPEN;
    list_add(&vm->entries, en);
    if (vm->n_kept > 0) {
        struct vm__thread t = vm->kept[--vm->n_kept];
        en->L = t.L;
        en->ref = t.ref;
    } else {
        en->L = lua_newthread(vm->L);
        en->ref = luaL_ref(vm->L, LUA_REGISTRYINDEX);
        vm__mark(en->L, vm, MARK_ENTRY);
    }
    return en->L;
}

int entry_push_chunk(struct entry *en, struct str text, const char *chunk)
{
    const char *path = chunk[0] == '@' ? chunk + 1 : NULL;
    assert(en->phase == PHASE_OPEN && en->fault == NULL);
    if (text.n > VM_CHUNK_MAX) {
        en->fault = fault__of_text(FAULT_LOAD_FAILED, path, STR("the file is larger than 1 MiB"));
        return -1;
    }
    uint32_t budget_ms = en->budget_ms;
    int line;
    en->budget_ms = MIN(budget_ms, VM_COMPILE_MS);
    en->compiling = true;
    struct outside was = enter(en);
    int status = compile__text(en->L, text, chunk, &line);
    leave(en->vm, was);
    if (status == LUA_OK) {
        en->compiling = false;
        en->budget_ms = budget_ms;
        return 0;
    }
    if (status != LUA_ERRMEM && en->trip == TRIP_NONE) {
        en->fault = fault__of_text(FAULT_LOAD_FAILED, path, error_text(en->L));
        return -1;
    }
    if (en->trip == TRIP_NONE) {
        en->trip = (unsigned char)limit__refused(en->vm);
    }
    limit__report(en);
    en->fault->path = path != NULL ? xstrdup(path) : NULL; // no call is open that could tell
    en->fault->line = line;
    return -1;
}

enum entry_status entry_run(struct entry *en, int nargs)
{
    assert(en->phase == PHASE_OPEN && lua_status(en->L) == LUA_OK);
    if (en->vm->dead) {
        return refuse(en, "its Lua state ran out of memory");
    }
    return resume(en, nargs);
}

void entry_end(struct entry *en)
{
    struct vm *vm = en->vm;
    if (en->phase == PHASE_NONE) {
        return;
    }
    if (en->phase == PHASE_WAITING) {
        cancel_wait(en);
        struct outside was = enter(en);
        close_pending(en);
        leave(vm, was);
    } else {
        vm->lenient--;
    }
    list_remove(&vm->entries, en);
    en->prev = en->next = NULL;
    en->phase = PHASE_NONE;
    if (en->trip == TRIP_NONE && lua_status(en->L) == LUA_OK && vm->n_kept < VM__KEPT) {
        lua_settop(en->L, 0);
        vm->kept[vm->n_kept++] = (struct vm__thread){en->L, en->ref};
    } else {
        vm__mark(en->L, vm, MARK_POISONED);
        luaL_unref(vm->L, LUA_REGISTRYINDEX, en->ref);
    }
    en->L = NULL;
    if (en->trip == TRIP_MEMORY) {
        alloc__recover(vm, en->owner); // now that nothing of it is left
    }
    fault_free(en->fault);
    en->fault = NULL;
}

void entry_check_wait(lua_State *L)
{
    struct vm *vm = vm_of(L);
    const struct entry *en = vm->active;
    const char *why = NULL;
    if (en == NULL || en->done == NULL) {
        why = en != NULL && en->kind == ENTRY_LOAD ? "a file that loads cannot be suspended"
                                                   : "this handler cannot be suspended";
    }
    struct vm__level here = {L, vm->level};
    for (struct vm__level *l = &here; l != NULL && why == NULL; l = l->up) {
        if (!lua_isyieldable(l->L)) {
            why = "inside a callback of table.sort, string.gsub or the like";
        } else if (in_metamethod(l->L)) {
            why = "inside a metamethod";
        }
    }
    if (why != NULL) {
        luaL_error(L, "cannot wait here: %s", why);
    }
}

int entry_wait(lua_State *L, struct entry_wait *w)
{
    struct entry *en = vm_of(L)->active;
    assert(en != NULL && en->wait == NULL && w->en == NULL);
    w->en = en;
    en->wait = w;
    return lua_yield(L, 0);
}

lua_State *entry_wake_begin(struct entry_wait *w)
{
    assert(w->en != NULL && w->en->phase == PHASE_WAITING);
    w->en->phase = PHASE_OPEN;
    w->en->vm->lenient++;
    return w->en->L;
}

void entry_wake(struct entry_wait *w, int n_values)
{
    struct entry *en = w->en;
    assert(en->wait == w && en->phase == PHASE_OPEN);
    w->en = NULL;
    en->wait = NULL;
    enum entry_status s =
        en->vm->dead ? refuse(en, "its Lua state ran out of memory") : resume(en, n_values);
    if (s != ENTRY_WAITING) {
        en->done(en, s);
    }
}

struct entry *entry_running(struct vm *vm)
{
    return vm->active;
}

void entry__close_all(struct vm *vm)
{
    while (vm->entries != NULL) {
        struct entry *en = vm->entries;
        assert(en->phase == PHASE_WAITING); // an entry that runs is further down on this stack
        cancel_wait(en);
        en->phase = PHASE_OPEN;
        vm->lenient++;
        en->done(en, refuse(en, "its Lua state was closed"));
        assert(vm->entries != en); // done() must end it: the state goes away
    }
}
