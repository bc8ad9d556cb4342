#pragma once

#include "base/str.h"

/// Memory for one piece of work (a request, a document, a turn), freed all at once. Objects are aligned
/// for any type and are never freed one by one. A zeroed arena is an empty one: `struct arena a = {0};`.
struct arena {
    struct arena_block *head; // the block being filled, then the full ones
    size_t used;              // bytes handed out so far, for limits and tests
};

/// Free everything and leave an empty arena.
void arena_fini(struct arena *a);
/// Memory that lives as long as the arena; never NULL. arena_calloc() clears it and checks `n * size`.
void *arena_alloc(struct arena *a, size_t n);
void *arena_calloc(struct arena *a, size_t n, size_t size);
/// A NUL-terminated copy or formatted text; arena_str() returns it with its length.
char *arena_strdup(struct arena *a, struct str s);
struct str arena_str(struct arena *a, struct str s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
/// A copy of a list of strings that ends with NULL, the strings included; an empty list for NULL.
const char **arena_copy_list(struct arena *a, const char *const *list);
/// A list of the `n` pointers at `p`, NULL at its end. The strings are not copied.
const char **arena_list(struct arena *a, const char *const *p, size_t n);
