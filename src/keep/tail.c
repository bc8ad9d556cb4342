#include "keep/tail.h"

#include <assert.h>

void tail_init(struct tail *r, size_t size)
{
    assert(size != 0 && (size & (size - 1)) == 0);
    *r = (struct tail){.bytes = xmalloc(size), .size = size};
}

void tail_fini(struct tail *r)
{
    free(r->bytes);
    *r = (struct tail){0};
}

void tail_add(struct tail *r, struct str bytes)
{
    if (bytes.n > r->size) { // only its end is kept
        r->end += bytes.n - r->size;
        bytes = str_from(bytes, bytes.n - r->size);
    }
    while (bytes.n != 0) {
        size_t at = (size_t)(r->end & (r->size - 1)), n = MIN(bytes.n, r->size - at);
        memcpy(r->bytes + at, bytes.p, n);
        r->end += n;
        bytes = str_from(bytes, n);
    }
}

uint64_t tail_start(const struct tail *r)
{
    return r->end > r->size ? r->end - r->size : 0;
}

struct str tail_from(const struct tail *r, uint64_t offset, size_t max)
{
    assert(offset >= tail_start(r) && offset <= r->end);
    size_t at = (size_t)(offset & (r->size - 1)), n = (size_t)(r->end - offset);
    return (struct str){r->bytes + at, MIN(MIN(n, r->size - at), max)};
}
