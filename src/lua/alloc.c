// Memory of a state: counted, and refused beyond its limit.
//
// Lua asks for every byte through one function. While Lua code runs, a block that would pass the
// state's limit, or that alone is larger than a quarter of it, is refused; Lua then collects
// everything, asks once more, and if that fails too raises an error that no code of the state can
// catch (limit.c). While C code of ours builds or reads values nothing is refused: such code could
// not survive an error in the middle, and what it builds is bounded by its own limits. The excess
// counts against the code that runs next.
//
// The allocator also knows when single instructions become expensive: concatenating or comparing
// strings of megabytes takes milliseconds, and a thousand of them between two looks at the clock
// would be seconds. So a large block brings the next look forward, and as long as one lives the
// looks are frequent. The same after a refusal, because each costs a full collection.
//
// Invariant: `used` is the sum of all blocks, `n_big` the number of those of VM__BIG and more.

#include "lua/vm_int.h"

enum { DEEP = 10000 }; // open calls that nobody means to have

static bool refused(struct vm *vm, size_t old, size_t want)
{
    if (vm->active == NULL || vm->lenient > 0 || vm->active->trip != TRIP_NONE) {
        return false;
    }
    return want > vm->block_max || vm->used - old + want > vm->memory_max;
}

static void account(struct vm *vm, size_t old, size_t want)
{
    vm->used = vm->used - old + want;
    vm->peak = MAX(vm->peak, vm->used);
    vm->n_big -= old >= VM__BIG;
    if (want >= VM__BIG) {
        vm->n_big++;
        limit__press(vm);
    }
}

void *alloc__lua(void *ud, void *p, size_t old, size_t want)
{
    struct vm *vm = ud;
    if (p == NULL) {
        old = 0; // Lua tells the type of object there
    }
    if (want == 0) {
        free(p);
        account(vm, old, 0);
        return NULL;
    }
    if (want > old && refused(vm, old, want)) {
        lua_Debug ar;
        vm->refusals++;
        vm->deep = lua_getstack(vm->running, DEEP, &ar) == 1;
        limit__press(vm);
        return NULL;
    }
    void *q = xrealloc(p, want);
    account(vm, old, want);
    return q;
}

void alloc__recover(struct vm *vm, struct vm_owner *owner)
{
    lua_gc(vm->L, LUA_GCCOLLECT);
    if (vm->dead || vm->used <= vm->memory_max - vm->memory_max / 8) {
        return;
    }
    vm->dead = true;
    if (vm->died != NULL) {
        vm->died(vm->died_arg, owner);
    }
}
