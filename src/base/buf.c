// Bounded byte buffers; see buf.h for the contract.

#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_fini(struct buf *b)
{
    free(b->p);
    *b = (struct buf){.max = b->max};
}

char *buf_reserve(struct buf *b, size_t n)
{
    size_t max = MIN(b->max, (size_t)PTRDIFF_MAX - 1); // sums with it cannot overflow
    assert(b->n <= max);
    if (b->over || n > max - b->n) {
        b->over = true;
        return NULL;
    }
    if (b->n + n + 1 > b->cap) {
        size_t cap = MAX(b->cap * 2, b->n + n + 1);
        b->cap = MIN(MAX(cap, 64), max + 1);
        b->p = xrealloc(b->p, b->cap);
        b->p[b->n] = '\0';
    }
    return b->p + b->n;
}

void buf_grow(struct buf *b, size_t n)
{
    assert(b->n + n < b->cap);
    b->n += n;
    b->p[b->n] = '\0';
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    char *room = buf_reserve(b, n);
    if (room != NULL) {
        if (n != 0) {
            memcpy(room, p, n);
        }
        buf_grow(b, n);
    }
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_adds(struct buf *b, struct str s)
{
    buf_add(b, s.p, s.n);
}

void buf_addz(struct buf *b, const char *z)
{
    buf_add(b, z, strlen(z));
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *room = buf_reserve(b, n >= 0 ? (size_t)n : SIZE_MAX); // longer than an int can say
    if (room != NULL) {
        vsnprintf(room, (size_t)n + 1, fmt, again);
        buf_grow(b, (size_t)n);
    }
    va_end(again);
}

bool buf_ok(const struct buf *b)
{
    return !b->over;
}

struct str buf_str(const struct buf *b)
{
    return (struct str){b->p, b->n};
}

const char *buf_z(const struct buf *b)
{
    return b->p != NULL ? b->p : "";
}

void buf_drop(struct buf *b, size_t n)
{
    assert(n <= b->n);
    if (n != 0) {
        b->n -= n;
        memmove(b->p, b->p + n, b->n + 1);
    }
}

void buf_cut(struct buf *b, size_t n)
{
    assert(n <= b->n);
    if (b->p != NULL) {
        b->n = n;
        b->p[n] = '\0';
    }
}

void buf_clear(struct buf *b)
{
    buf_cut(b, 0);
    b->over = false;
}

char *buf_take(struct buf *b, size_t *n)
{
    char *p = b->p != NULL ? b->p : xstrdup("");
    if (n != NULL) {
        *n = b->n;
    }
    *b = (struct buf){.max = b->max};
    return p;
}
