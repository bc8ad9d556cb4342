// A table from names to what has them, made anew for each generation.
//
// A generation is built with every save, and most of what it holds was in the one before. So the hash of a
// name is computed once, where the name is made, and the table borrows the name: filling it allocates
// nothing but the table.
//
// Invariant: at most half of the entries are used, so that a search ends.

#include <assert.h>

#include "gen/gen_int.h"

uint64_t gen__hash(int kind, struct str name)
{
    return map_hash(name) + (uint64_t)kind * 0x9e3779b97f4a7c15u;
}

void gen__index_init(struct gen__index *ix, size_t n)
{
    ix->cap = 8;
    while (ix->cap < 2 * n) {
        ix->cap *= 2;
    }
    ix->entries = xcalloc(ix->cap, sizeof *ix->entries);
    ix->n = 0;
}

void gen__index_fini(struct gen__index *ix)
{
    free(ix->entries);
    *ix = (struct gen__index){0};
}

/// The entry of that name, or the free one where it belongs.
static struct gen__entry *find(const struct gen__index *ix, uint64_t hash, int kind,
                               struct str name)
{
    size_t at = hash & (ix->cap - 1);
    for (; ix->entries[at].value != NULL; at = (at + 1) & (ix->cap - 1)) {
        const struct gen__entry *e = &ix->entries[at];
        if (e->hash == hash && e->kind == kind && str_eqz(name, e->name)) {
            break;
        }
    }
    return &ix->entries[at];
}

void *gen__index_get(const struct gen__index *ix, int kind, struct str name)
{
    return find(ix, gen__hash(kind, name), kind, name)->value;
}

void **gen__index_at(struct gen__index *ix, uint64_t hash, int kind, const char *name)
{
    struct gen__entry *e = find(ix, hash, kind, str_of(name));
    if (e->value == NULL) {
        ix->n++;
        assert(2 * ix->n <= ix->cap);
        e->hash = hash;
        e->kind = kind;
        e->name = name;
    }
    return &e->value;
}
