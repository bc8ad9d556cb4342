// The keepers' protocol: whatever comes, in whatever pieces, the same messages are read, none longer than
// allowed, and what was refused once stays refused.

#include <assert.h>

#include "keep/wire.h"

enum { LIMIT = 64 };

static int read_all(struct wire *w, struct buf *out)
{
    struct wire_msg m;
    int rc;
    while ((rc = wire_next(w, &m)) > 0) {
        assert(m.payload.n < LIMIT);
        wire_add(out, m.type, m.payload, STR_NULL);
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct buf whole = {.max = SIZE_MAX}, split = {.max = SIZE_MAX};
    struct wire a, b;
    int rc = 0;
    wire_init(&a, LIMIT);
    wire_init(&b, LIMIT);
    wire_feed(&a, (struct str){(const char *)data, n});
    int first = read_all(&a, &whole);
    for (size_t i = 0; i < n && rc == 0; i++) {
        wire_feed(&b, (struct str){(const char *)data + i, 1});
        rc = read_all(&b, &split);
    }
    assert(rc == first);
    assert(str_eq(buf_str(&whole), buf_str(&split)));
    assert(first == 0 ? whole.n <= n : true);
    wire_fini(&a);
    wire_fini(&b);
    buf_fini(&whole);
    buf_fini(&split);
    return 0;
}
