// A table from names to what has them, made anew for each generation.
//
// A generation is built with every save, and most of what it holds was in the one before. So the hash of a
// name is computed once, where the name is made, and the table borrows the name: filling it allocates
// nothing but the table, and reads no name unless two hashes are equal.
//
// Invariant: at most half of the entries are used, so that a search ends.

#include <assert.h>

#include "gen/gen_int.h"

uint64_t gen__hash(int kind, struct str name)
{
    return map_hash(name) + (uint64_t)kind * 0x9e3779b97f4a7c15u;
}

void gen__index_init(struct gen__index *ix, size_t n, struct gen__index *spare)
{
    size_t cap = 8;
    while (cap < 2 * n) {
        cap *= 2;
    }
    if (spare->cap == cap) {
        *ix = *spare;
        *spare = (struct gen__index){0};
        memset(ix->entries, 0, cap * sizeof *ix->entries);
    } else {
        ix->entries = xcalloc(cap, sizeof *ix->entries);
    }
    ix->cap = cap;
    ix->n = 0;
}

void gen__index_fini(struct gen__index *ix)
{
    free(ix->entries);
    *ix = (struct gen__index){0};
}

/// The entry of that name, `len` bytes or up to its end for SIZE_MAX, or the free one where it belongs.
static struct gen__entry *find(const struct gen__index *ix, uint64_t hash, const char *name,
                               size_t len)
{
    size_t at = hash & (ix->cap - 1);
    for (; ix->entries[at].value != NULL; at = (at + 1) & (ix->cap - 1)) {
        const struct gen__entry *e = &ix->entries[at];
        if (e->hash == hash) {
            len = len == SIZE_MAX ? strlen(name) : len;
            if (str_eqz((struct str){name, len}, e->name)) {
                break;
            }
        }
    }
    return &ix->entries[at];
}

void *gen__index_get(const struct gen__index *ix, int kind, struct str name)
{
    return find(ix, gen__hash(kind, name), name.p, name.n)->value;
}

void **gen__index_at(struct gen__index *ix, uint64_t hash, const char *name)
{
    struct gen__entry *e = find(ix, hash, name, SIZE_MAX);
    if (e->value == NULL) {
        ix->n++;
        assert(2 * ix->n <= ix->cap);
        e->hash = hash;
        e->name = name;
    }
    return &e->value;
}
