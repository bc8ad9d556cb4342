// Newline-delimited messages: bytes in as they arrive, whole lines out.
//
//     feed ─> in: [ given out | line \n line \n rest ] ─> next, next;  the rest moves to the front at the next feed
//
// Invariants:
//   - lines before `taken` were given out; `in` has no newline between `taken` and `scanned`.
//   - a line above the bound leaves `in` over, and no line comes after it.

#include <assert.h>
#include <string.h>

#include "rpc/rpc.h"

void rpc_lines_init(struct rpc_lines *l, size_t max)
{
    *l = (struct rpc_lines){.max = max};
    buf_init(&l->in, SIZE_MAX);
}

void rpc_lines_fini(struct rpc_lines *l)
{
    buf_fini(&l->in);
}

void rpc_lines_feed(struct rpc_lines *l, struct str bytes)
{
    if (l->over) {
        return;
    }
    buf_drop(&l->in, l->taken);
    l->scanned -= l->taken;
    l->taken = 0;
    buf_adds(&l->in, bytes);
}

bool rpc_lines_next(struct rpc_lines *l, struct str *line)
{
    assert(l->taken <= l->scanned && l->scanned <= l->in.n);
    while (!l->over && l->scanned < l->in.n) {
        const char *newline = memchr(l->in.p + l->scanned, '\n', l->in.n - l->scanned);
        size_t end = newline != NULL ? (size_t)(newline - l->in.p) : l->in.n;
        size_t start = l->taken;
        l->over = end - start > l->max;
        if (l->over || newline == NULL) {
            l->scanned = l->in.n;
            return false;
        }
        l->taken = l->scanned = end + 1;
        *line = str_trim((struct str){l->in.p + start, end - start});
        if (line->n != 0) {
            return true;
        }
    }
    return false;
}

bool rpc_lines_over(const struct rpc_lines *l)
{
    return l->over;
}
