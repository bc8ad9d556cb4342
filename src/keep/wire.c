// The protocol of keepers: framing, lengths checked before anything is believed.

#include "keep/wire.h"

#include <assert.h>

#include "base/err.h"

enum { HEAD = 4 };

void wire_init(struct wire *w, size_t max)
{
    *w = (struct wire){.max = max};
    buf_init(&w->in, SIZE_MAX);
}

void wire_fini(struct wire *w)
{
    buf_fini(&w->in);
}

void wire_feed(struct wire *w, struct str bytes)
{
    buf_drop(&w->in, w->at);
    w->at = 0;
    buf_adds(&w->in, bytes);
}

int wire_next(struct wire *w, struct wire_msg *m)
{
    struct str rest = str_from(buf_str(&w->in), w->at);
    uint64_t n, type;
    if (!wire_get(&rest, HEAD, &n)) {
        return 0;
    }
    if (n == 0 || n > w->max) {
        return ERR_PARSE;
    }
    if (rest.n < n) {
        return 0;
    }
    w->at += HEAD + (size_t)n;
    rest.n = (size_t)n;
    bool got = wire_get(&rest, 1, &type);
    assert(got);
    if (!got || type < WIRE_HELLO || type > WIRE_REFUSED) {
        return ERR_PARSE;
    }
    *m = (struct wire_msg){(enum wire_type)type, rest};
    return 1;
}

void wire_add(struct buf *out, enum wire_type type, struct str a, struct str b)
{
    assert(a.n + b.n < UINT32_MAX - 1);
    wire_put(out, 1 + a.n + b.n, HEAD);
    wire_put(out, type, 1);
    buf_adds(out, a);
    buf_adds(out, b);
}

void wire_add_hello(struct buf *out, enum wire_role role)
{
    struct buf hello = {.max = 16};
    wire_put(&hello, WIRE_VERSION, 2);
    wire_put(&hello, role, 1);
    wire_add(out, WIRE_HELLO, buf_str(&hello), STR_NULL);
    buf_fini(&hello);
}

void wire_put(struct buf *out, uint64_t value, unsigned n)
{
    assert(n >= 1 && n <= 8);
    for (unsigned i = 0; i < n; i++) {
        buf_addc(out, (char)(value >> 8 * i & 255));
    }
}

bool wire_get(struct str *from, unsigned n, uint64_t *value)
{
    *value = 0;
    assert(n >= 1 && n <= 8);
    if (from->n < n) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        *value |= (uint64_t)(unsigned char)from->p[i] << 8 * i;
    }
    *from = str_from(*from, n);
    return true;
}
