// Memory of a state: counted, and refused beyond its limit.
//
// Lua asks for every byte through one function. While Lua code runs, a block that would exceed the
// state's limit, or that alone is larger than a quarter of it, is refused. Lua then collects all
// garbage, asks once more, and if that fails too raises an error that no code of the state can
// catch (limit.c). While C code of ours builds or reads values nothing is refused: such code could
// not survive an error in the middle, and has its own limits. What it uses above the limit counts
// against the code that runs next.
//
// The allocator also knows when single instructions become expensive: concatenating or comparing
// strings of megabytes takes milliseconds, and a thousand of them between two looks at the clock
// would be seconds. So a large block brings the next look forward, and as long as one lives the
// looks are frequent. The same after a refusal, because each costs a full collection.
//
// Blocks of a table's size are cells of the state's own, one cache line each:
//
//     slabs ──> [ link | cell | cell | ... ] ──> [ link | cell | ... ]
//     cells ──────────────> cell ──> cell ──> ...        the free ones
//
// The arguments of every hook are such tables, and garbage a moment later. With malloc the garbage of a hundred states is
// spread over megabytes, and making and sweeping each table waits for memory. Here the tables of a state are side by side,
// and the next free cell is fetched into the cache in advance. Slabs are freed with the state: a state that once had many
// tables keeps room for as many.
//
// What C keeps for the state's code (timers, queued requests, texts of tools) is counted by vm_charge().
//
// Invariant: `used` is the sum of all blocks and of what C keeps, `n_big` the number of those of VM__BIG and more.

#include "lua/vm_int.h"

enum {
    DEEP = 10000,  // open calls: this must be a recursion without end
    CELL = 64,     // bytes; Lua's tables have 56
    CELL_MIN = 49, // smaller blocks would waste more than malloc does
    SLAB = 4096,
};

struct alloc__cell {
    union {
        struct alloc__cell *next;
        char bytes[CELL];
    };
};

// ---- blocks ---------------------------------------------------------------------------------

static bool is_cell(size_t n)
{
    return n >= CELL_MIN && n <= CELL;
}

static void *take_block(struct vm *vm, size_t n)
{
    if (!is_cell(n)) {
        return xmalloc(n);
    }
    if (vm->cells == NULL) {
        struct alloc__cell *slab = aligned_alloc(CELL, SLAB);
        if (slab == NULL) {
            abort(); // as xmalloc()
        }
        slab->next = vm->slabs;
        vm->slabs = slab;
        for (size_t i = SLAB / CELL - 1; i > 0; i--) { // the lowest is taken first
            slab[i].next = vm->cells;
            vm->cells = &slab[i];
        }
    }
    struct alloc__cell *c = vm->cells;
    vm->cells = c->next;
    __builtin_prefetch(vm->cells, 1);
    return c;
}

static void give_block(struct vm *vm, void *p, size_t n)
{
    if (!is_cell(n)) {
        free(p);
        return;
    }
    struct alloc__cell *c = p;
    c->next = vm->cells;
    vm->cells = c;
}

static void *resize_block(struct vm *vm, void *p, size_t old, size_t want)
{
    if (p == NULL) {
        return take_block(vm, want);
    }
    if (is_cell(old) && is_cell(want)) {
        return p;
    }
    if (!is_cell(old) && !is_cell(want)) {
        return xrealloc(p, want);
    }
    void *q = take_block(vm, want);
    memcpy(q, p, MIN(old, want));
    give_block(vm, p, old);
    return q;
}

// ---- limits ---------------------------------------------------------------------------------

static bool refused(struct vm *vm, size_t old, size_t want)
{
    lua_Debug ar;
    if (vm->active == NULL || vm->lenient > 0 || vm->active->trip != TRIP_NONE) {
        return false;
    }
    if (want > vm->block_max || vm->used - old + want > vm->memory_max) {
        vm->refusal = lua_getstack(vm->running, DEEP, &ar) ? REFUSED_DEEP : REFUSED_FULL;
        return true;
    }
    if (old == 0 && collide__is_hash(want) && collide__check(vm, want)) {
        vm->refusal = REFUSED_KEYS;
        return true;
    }
    return false;
}

static void account(struct vm *vm, size_t old, size_t want)
{
    vm->used = vm->used - old + want;
    vm->lean = MIN(vm->lean, vm->used);
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
    if (want > old && refused(vm, old, want)) {
        limit__press(vm);
        return NULL;
    }
    if (collide__is_hash(old)) {
        collide__remove(vm, p);
    }
    if (want == 0) {
        give_block(vm, p, old);
        account(vm, old, 0);
        return NULL;
    }
    void *q = resize_block(vm, p, old, want);
    account(vm, old, want);
    if (collide__is_hash(want)) {
        collide__add(vm, q, want);
    }
    return q;
}

static bool fits(const struct vm *vm, size_t bytes)
{
    return vm->used <= vm->memory_max && bytes <= vm->memory_max - vm->used;
}

bool vm_make_room(struct vm *vm, size_t bytes)
{
    // collecting again is worth it only after some more has come
    if (!fits(vm, bytes) && vm->used > vm->lean + vm->memory_max / 16) {
        lua_gc(vm->running != NULL ? vm->running : vm->L, LUA_GCCOLLECT);
        vm->lean = vm->used;
    }
    return fits(vm, bytes);
}

bool vm_charge(struct vm *vm, size_t bytes)
{
    if (!vm_make_room(vm, bytes)) {
        return false;
    }
    vm->used += bytes;
    return true;
}

void vm_discharge(struct vm *vm, size_t bytes)
{
    assert(vm->used >= bytes);
    vm->used -= bytes;
    vm->lean = MIN(vm->lean, vm->used);
}

void vm_set_memory(struct vm *vm, size_t memory_max)
{
    assert(memory_max != 0);
    vm->memory_max = memory_max;
    vm->block_max = memory_max / 4;
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

void alloc__close(struct vm *vm)
{
    while (vm->slabs != NULL) {
        struct alloc__cell *slab = vm->slabs;
        vm->slabs = slab->next;
        free(slab);
    }
    vec_fini(&vm->hashes);
}
