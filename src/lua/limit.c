// Deadlines that Lua code cannot outlast.
//
// Lua calls a hook every VM__TICK instructions; the hook looks at the clock. That alone is not
// enough, because code can hide from a hook that raises an error:
//
//   catching it        pcall, xpcall, coroutine.resume and load are our own (guard.c, corout.c):
//                      after a trip they raise again what they caught. Should anything else
//                      swallow the error, the hook has gone down to one instruction meanwhile.
//   running without    Lua switches hooks off inside a hook, where the message handler of an xpcall
//   hooks              would run, and inside __gc. Our xpcall calls no handler after a trip;
//                      __gc is refused (guard.c).
//   staying in C       C functions that loop are our own and count their steps (limit__tick);
//                      those that are linear in their arguments pay before they begin.
//   a dead coroutine   that the hook ended keeps its hooks off; closing it later would run its
//                      __close handlers uncounted. It is marked poisoned and never runs again.
//   many expensive     see alloc.c: large blocks make the looks more frequent.
//   instructions
//   one instruction    growing a table whose keys collide: see collide.c.
//   that never ends
//
// Only time in which the thread had a processor counts: on a busy machine a plugin must not fail for
// what others used. Asking for that time is a system call, and most entries end before the first look,
// so it is asked for at the first look and again only when the deadline seems to have passed; the
// difference moves the deadline. What happened before the first look is not known: an entry that is late
// there, by STARVED budgets at most, gets its budget once more.
//
// A thread that sleeps in a system call has no processor either, and the two cannot be told apart at this
// price. Code whose file functions wait for a disk is therefore forgiven, too, but the hub must not hang:
// the deadline moves by STARVED budgets at most, so an entry ends ten budgets of real time after its first
// look, which is ten budgets late at most, plus the one call that it waits in. Time that C code knows to be
// another's fault is taken out whole (entry_excuse).
//
// A trip belongs to an entry, not to the state: when that entry has been unwound, the state is usable again.
// The entry's own coroutine is not kept (entry.c).

#include "base/time.h"
#include "lua/vm_int.h"

enum { STARVED = 9 }; // budgets

static void on_count(lua_State *L, lua_Debug *ar);

/// lua_sethook() walks over all open calls of a coroutine, and there may be a hundred thousand: call it
/// only where it changes something.
static void set_hook(lua_State *L, int count)
{
    if (lua_gethookcount(L) != count || lua_gethook(L) != on_count) {
        lua_sethook(L, on_count, LUA_MASKCOUNT, count);
    }
}

static void trip(lua_State *L, struct entry *en, enum vm__trip why)
{
    if (en->trip == TRIP_NONE) {
        en->trip = (unsigned char)why;
        en->vm->lenient++; // the report is ours
        limit__report(en);
        en->vm->lenient--;
    }
    set_hook(L, 1); // in every coroutine of the entry the next instruction comes here
    for (struct vm__level *l = en->vm->level; l != NULL; l = l->up) {
        set_hook(l->L, 1);
    }
    lua_pushlightuserdata(L, en);
    lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    struct vm *vm = vm_of(L);
    limit__check(L);
    limit__arm(vm, L);
}

void limit__arm(struct vm *vm, lua_State *L)
{
    int want = vm->pressed ? 1 : vm->n_big > 0 ? VM__TICK_BIG : VM__TICK;
    set_hook(L, want);
}

void limit__press(struct vm *vm)
{
    if (vm->active != NULL && !vm->pressed) {
        vm->pressed = true;
        set_hook(vm->running, 1);
    }
}

/// The deadline has passed at `now`. Move it by the time for which the thread had no processor, as far
/// as it was not moved for that before. Returns whether it is in the future again.
static bool forgive(struct entry *en, uint64_t now)
{
    uint64_t wall = now - en->looked_ns, ran = time_thread_ns() - en->looked_cpu_ns;
    uint64_t most = (uint64_t)en->budget_ms * 1000000 * STARVED;
    uint64_t starved = wall > ran ? wall - ran : 0;
    starved = starved < most ? starved : most;
    if (starved <= en->forgiven_ns) {
        return false;
    }
    en->deadline += starved - en->forgiven_ns;
    en->forgiven_ns = starved;
    watchdog__see(en);
    return now < en->deadline;
}

void entry_excuse(struct vm *vm, uint64_t ns)
{
    for (struct entry *en = vm->active; en != NULL; en = en->up) {
        en->deadline += ns;
        en->looked_ns += en->looked_ns != 0 ? ns : 0; // or it would be forgiven once more
    }
    if (vm->active != NULL) {
        watchdog__see(vm->active);
    }
}

bool limit__expired(struct vm *vm)
{
    struct entry *en = vm->active;
    vm->work = 0;
    vm->ticks++;
    if (en == NULL || en->trip != TRIP_NONE) {
        return en != NULL;
    }
    uint64_t now = time_mono_ns();
    if (en->looked_ns == 0) {
        en->looked_ns = now;
        en->looked_cpu_ns = time_thread_ns();
        uint64_t budget = (uint64_t)en->budget_ms * 1000000;
        if (now >= en->deadline && now - en->deadline < budget * STARVED) {
            en->deadline = now + budget;
            watchdog__see(en);
        }
    }
    return now >= en->deadline && !forgive(en, now);
}

void limit__check(lua_State *L)
{
    struct vm *vm = vm_of(L);
    vm->pressed = false;
    if (vm->lenient == 0 && limit__expired(vm)) {
        trip(L, vm->active, TRIP_TIME);
    }
}

void limit__caught(lua_State *L, int status)
{
    struct entry *en = vm_of(L)->active;
    if (en->trip != TRIP_NONE || status == LUA_ERRMEM) {
        trip(L, en, limit__refused(en->vm));
    }
}

enum vm__trip limit__refused(const struct vm *vm)
{
    return vm->refusal == REFUSED_KEYS ? TRIP_KEYS : TRIP_MEMORY;
}

void limit__report(struct entry *en)
{
    struct vm *vm = en->vm;
    lua_State *L = vm->active == en ? vm->running : en->L;
    bool load = en->kind == ENTRY_LOAD;
    char text[120];
    if (en->trip == TRIP_TIME) {
        snprintf(text, sizeof text, "%s more than %u ms%s", en->compiling ? "took" : "ran for",
                 en->budget_ms, en->compiling ? " to compile" : " without a pause");
    } else if (en->trip == TRIP_KEYS) {
        snprintf(text, sizeof text,
                 "a table with numbers as keys cannot grow: too many of them share a hash value");
    } else {
        snprintf(text, sizeof text, "%sused more than %zu KiB of memory",
                 vm->refusal == REFUSED_DEEP ? "stack overflow: " : "", vm->memory_max / 1024);
    }
    enum fault_code code = en->trip == TRIP_MEMORY ? FAULT_MEMORY_LIMIT
                           : load                  ? FAULT_LOAD_TIMEOUT
                                                   : FAULT_HOOK_TIMEOUT;
    fault_free(en->fault);
    en->fault = fault__of_stack(code, L, str_of(text));
}
