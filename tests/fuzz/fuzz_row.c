// The row filter: whatever the split, the same bytes come out; without a sequence of ours they are the
// ones that went in; and it never keeps more than it may.

#include <assert.h>

#include "term/rowfilter.h"

static void run(struct str bytes, unsigned seed, struct buf *out)
{
    struct rowfilter f;
    rowfilter_init(&f, 24, 80);
    while (bytes.n != 0) {
        seed = seed * 1103515245 + 12345;
        size_t n = seed / 65536 % 7 + 1;
        struct str piece = {bytes.p, MIN(n, bytes.n)};
        rowfilter_feed(&f, piece, out, out);
        assert(f.n_held <= ROWFILTER_HELD);
        bytes = str_from(bytes, piece.n);
    }
    rowfilter_end(&f, out);
}

static void run_whole(struct str bytes, struct buf *out)
{
    struct rowfilter f;
    rowfilter_init(&f, 24, 80);
    rowfilter_feed(&f, bytes, out, out); // what it answers is the same too
    rowfilter_end(&f, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str bytes = {(const char *)data, n};
    struct buf whole, split;
    buf_init(&whole, SIZE_MAX);
    buf_init(&split, SIZE_MAX);
    run_whole(bytes, &whole);
    assert(str_index(bytes, 27) >= 0 || str_eq(bytes, buf_str(&whole)));
    for (unsigned seed = 1; seed <= 3; seed++) {
        buf_clear(&split);
        run(bytes, seed, &split);
        assert(str_eq(buf_str(&whole), buf_str(&split)));
    }
    buf_fini(&whole);
    buf_fini(&split);
    return 0;
}
