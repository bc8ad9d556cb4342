// Allocation that never fails.
//
// A hub that runs out of memory half-way through an operation cannot keep its promises, and code that tries
// is never tested. So we stop at once: journals are written before they are shown, and the next start
// continues from them.

#include <stdarg.h>

#include "base/base.h"

static NORETURN void out_of_memory(size_t n)
{
    fprintf(stderr, "afloat: out of memory (%zu bytes wanted)\n", n);
    abort();
}

void *xmalloc(size_t n)
{
    void *p = malloc(n != 0 ? n : 1);
    if (p == NULL) {
        out_of_memory(n);
    }
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n != 0 ? n : 1, size != 0 ? size : 1);
    if (p == NULL) {
        out_of_memory(n * size);
    }
    return p;
}

void *xrealloc(void *p, size_t n)
{
    void *q = realloc(p, n != 0 ? n : 1);
    if (q == NULL) {
        out_of_memory(n);
    }
    return q;
}

void *xreallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        out_of_memory(SIZE_MAX);
    }
    return xrealloc(p, bytes);
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
    char *p = xmalloc(n + 1);
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *p;
    if (vasprintf(&p, fmt, ap) < 0) {
        out_of_memory(0);
    }
    return p;
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = xvasprintf(fmt, ap);
    va_end(ap);
    return p;
}
