#pragma once

#include "base/str.h"

/// Memory for one piece of work (a request, a document, a turn), given back all at once.
/// Objects are aligned for any type and are never freed one by one.
struct arena {
    struct arena_block *head; // the block being filled, then the full ones
    size_t used;              // bytes handed out so far, for limits and tests
};

void arena_init(struct arena *a);                           // allocates nothing
void arena_fini(struct arena *a);                           // leaves an empty arena
void *arena_alloc(struct arena *a, size_t n);               // not cleared
void *arena_calloc(struct arena *a, size_t n, size_t size); // cleared
char *arena_strdup(struct arena *a, struct str s);          // NUL-terminated copy
struct str arena_str(struct arena *a, struct str s);        // the same, as a str
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
