// Server-sent events: whatever the split, the same events arrive.

#include <assert.h>

#include "net/sse.h"

static int on_event(void *arg, const struct sse_event *ev)
{
    struct buf *log = arg;
    buf_adds(log, ev->id);
    buf_addc(log, '\1');
    buf_adds(log, ev->event);
    buf_addc(log, '\2');
    buf_adds(log, ev->data);
    buf_addc(log, '\3');
    return 0;
}

// Feed `bytes` in steps that a small generator chooses; step 0 feeds all at once.
static void run(struct str bytes, unsigned seed, struct buf *log)
{
    struct sse_parser p;
    sse_init(&p, 256, on_event, log);
    while (bytes.n != 0) {
        seed = seed * 1103515245 + 12345;
        size_t n = seed / 65536 % 7 + 1;
        struct str piece = {bytes.p, MIN(n, bytes.n)};
        if (sse_feed(&p, piece, NULL) != 0) {
            buf_addc(log, '!');
            break;
        }
        bytes = str_from(bytes, piece.n);
    }
    sse_fini(&p);
}

static void run_whole(struct str bytes, struct buf *log)
{
    struct sse_parser p;
    sse_init(&p, 256, on_event, log);
    if (sse_feed(&p, bytes, NULL) != 0) {
        buf_addc(log, '!');
    }
    sse_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str bytes = {(const char *)data, n};
    struct buf whole, split;
    buf_init(&whole, 1 << 24);
    buf_init(&split, 1 << 24);
    run_whole(bytes, &whole);
    for (unsigned seed = 1; seed <= 3; seed++) {
        buf_clear(&split);
        run(bytes, seed, &split);
        assert(str_eq(buf_str(&whole), buf_str(&split)));
    }
    buf_fini(&whole);
    buf_fini(&split);
    return 0;
}
