// Tables whose growth would take seconds.
//
// Lua moves every key when a table's hash part gets a new size, and looks each of them up on the way.
// A program that picks its numbers so that all of them fall into one slot of the new size makes that
// quadratic, and no hook runs meanwhile: 131,072 keys stop the hub for 20 seconds. Strings are hashed
// with a secret of the state; numbers are not.
//
// The allocator is the one place that we see before the keys move. A request for a hash part's size
// means that some table is about to get one of that size:
//
//     table full, or its array part grows ──> alloc(24 << k) ──> collide__check ──> refuse, or let go
//
// The allocator is not told which table it is. But a table gets a new hash part only when the one it has
// is full, or has the same size as the new one, so the candidates are known: the hash parts of the state
// that are alive. For each we count how many keys would share a slot, which is what moving them would cost.
//
// This reads what Lua 5.4 stores (struct node below); tests/unit/lua/test_limit.c fails if a newer Lua
// stores it in another way. Small tables are not checked: moving them costs less than the check.

#include <limits.h>
#include <math.h>

#include "lua/vm_int.h"

enum {
    SMALL = 13,          // log2 of the size from which on a hash part is looked at
    STEPS_MAX = 1 << 24, // comparisons that moving the keys may need, some 2 ns each
    KEY_NIL = 0,
    KEY_INTEGER = LUA_TNUMBER,
    KEY_FLOAT = LUA_TNUMBER | 1 << 4,
};

/// One slot of a hash part.
struct node {
    uint64_t value;
    uint8_t value_type, key_type;
    int32_t next; // distance to the next key with the same place
    union {
        int64_t integer;
        double number;
    } key;
};
static_assert(sizeof(struct node) == 24, "as in Lua 5.4 on 64 bits");

bool collide__is_hash(size_t bytes)
{
    size_t n = bytes / sizeof(struct node);
    return bytes >= sizeof(struct node) << SMALL && bytes % sizeof(struct node) == 0 &&
           (n & (n - 1)) == 0;
}

/// What Lua makes of a float before it takes the remainder.
static uint64_t float_hash(double x)
{
    int exponent;
    double whole = frexp(x, &exponent) * -(double)INT_MIN;
    if (!(whole >= (double)INT64_MIN && whole < -(double)INT64_MIN)) {
        return 0; // not a number, infinite
    }
    unsigned u = (unsigned)exponent + (unsigned)(int64_t)whole;
    return u <= INT_MAX ? u : ~u;
}

/// Does moving the numbers among these keys to a hash part of `size` slots take too many steps?
static bool is_costly(const struct node *nodes, size_t n, size_t size)
{
    uint32_t *counts = xcalloc(size, sizeof *counts);
    uint64_t steps = 0;
    for (size_t i = 0; i < n && steps <= STEPS_MAX; i++) {
        const struct node *d = &nodes[i];
        bool number = d->key_type == KEY_INTEGER || d->key_type == KEY_FLOAT;
        if (number && d->value_type != KEY_NIL) {
            uint64_t hash =
                d->key_type == KEY_INTEGER ? (uint64_t)d->key.integer : float_hash(d->key.number);
            steps += counts[hash % ((size - 1) | 1)]++;
        }
    }
    free(counts);
    return steps > STEPS_MAX;
}

/// Are these slots a hash part, and if `full`, one without a free slot?
static bool is_candidate(const struct node *nodes, size_t n, bool full)
{
    for (size_t i = 0; i < n; i++) {
        int64_t next = (int64_t)i + nodes[i].next;
        if (next < 0 || next >= (int64_t)n || (full && nodes[i].key_type == KEY_NIL)) {
            return false;
        }
    }
    return true;
}

bool collide__check(const struct vm *vm, size_t bytes)
{
    size_t size = bytes / sizeof(struct node);
    for (size_t i = 0; i < vm->hashes.n; i++) {
        const struct vm__block *b = &vm->hashes.p[i];
        size_t n = b->bytes / sizeof(struct node);
        if (is_candidate(b->p, n, n != size) && is_costly(b->p, n, size)) {
            return true;
        }
    }
    return false;
}

void collide__add(struct vm *vm, const void *p, size_t bytes)
{
    vec_push(&vm->hashes, ((struct vm__block){p, bytes}));
}

void collide__remove(struct vm *vm, const void *p)
{
    for (size_t i = vm->hashes.n; i-- > 0;) {
        if (vm->hashes.p[i].p == p) {
            vm->hashes.p[i] = vm->hashes.p[vm->hashes.n - 1];
            vm->hashes.n--;
            return;
        }
    }
}
