// Bump allocation in blocks that double up to a limit.
//
// Invariant: `head` is the only block with room. A request larger than a block gets its own block, linked
// after the head, so that the head's remaining room is not lost.

#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>

enum { FIRST_BLOCK = 1024, LARGEST_BLOCK = 256 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t n, cap;
    alignas(max_align_t) char p[];
};

void arena_fini(struct arena *a)
{
    for (struct arena_block *b = a->head, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    *a = (struct arena){0};
}

static struct arena_block *block_for(struct arena *a, size_t n)
{
    struct arena_block *head = a->head;
    if (head != NULL && n <= head->cap - head->n) {
        return head;
    }
    size_t cap = head != NULL ? MIN(head->cap * 2, (size_t)LARGEST_BLOCK) : FIRST_BLOCK;
    struct arena_block *b = xmalloc(sizeof *b + MAX(cap, n));
    b->n = 0;
    b->cap = MAX(cap, n);
    if (head != NULL && n > cap) {
        b->next = head->next;
        head->next = b;
    } else {
        b->next = head;
        a->head = b;
    }
    return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
    size_t align = alignof(max_align_t);
    size_t whole = (MAX(n, 1) + align - 1) & ~(align - 1);
    if (n > PTRDIFF_MAX) {
        return xmalloc(SIZE_MAX); // aborts: no such amount exists
    }
    struct arena_block *b = block_for(a, whole);
    void *p = b->p + b->n;
    b->n += whole;
    assert(b->n <= b->cap);
    a->used += whole;
    return p;
}

void *arena_calloc(struct arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        bytes = SIZE_MAX;
    }
    void *p = arena_alloc(a, bytes);
    memset(p, 0, bytes);
    return p;
}

char *arena_strdup(struct arena *a, struct str s)
{
    char *p = arena_alloc(a, s.n + 1);
    if (s.n != 0) {
        memcpy(p, s.p, s.n);
    }
    p[s.n] = '\0';
    return p;
}

struct str arena_str(struct arena *a, struct str s)
{
    return (struct str){arena_strdup(a, s), s.n};
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = arena_alloc(a, n >= 0 ? (size_t)n + 1 : SIZE_MAX); // longer than an int can say
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

const char **arena_copy_list(struct arena *a, const char *const *list)
{
    size_t n = str_count(list);
    const char **copy = arena_calloc(a, n + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++) {
        copy[i] = arena_strdup(a, str_of(list[i]));
    }
    return copy;
}

const char **arena_list(struct arena *a, const char *const *p, size_t n)
{
    const char **list = arena_calloc(a, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        list[i] = p[i];
    }
    return list;
}
