#pragma once

#include "base/str.h"

/// String-keyed hash map of pointers. Keys are copied; values are the caller's. The hash has a random seed,
/// so that keys from outside cannot be chosen to collide. A zeroed map is an empty one.
struct map {
    struct map_slot *slots;
    size_t n;    // keys held
    size_t cap;  // slots, a power of two
    size_t used; // slots not free: held or deleted
};

/// Start empty; free the keys (not the values) and leave an empty map.
void map_init(struct map *m);
void map_fini(struct map *m);

/// The value of `key`, or NULL when absent.
void *map_get(const struct map *m, struct str key);
/// Set `key` to `value` (not NULL) and return what it replaced, or NULL.
void *map_set(struct map *m, struct str key, void *value);
/// Take `key` out and return its value, or NULL when absent.
void *map_remove(struct map *m, struct str key);

/// Walk in no order: `size_t at = 0; while (map_next(m, &at, &key, &value)) ...`. The loop may remove the
/// current key, and must not add keys.
bool map_next(const struct map *m, size_t *at, struct str *key, void **value);

/// Free each value with `fn`, then the keys.
#define map_fini_each(m, fn)                                                                       \
    do {                                                                                           \
        struct str map_key;                                                                        \
        void *map_value;                                                                           \
        for (size_t map_at = 0; map_next(m, &map_at, &map_key, &map_value);) {                     \
            fn(map_value);                                                                         \
        }                                                                                          \
        map_fini(m);                                                                               \
    } while (0)

/// The hash itself (SipHash-1-3), for other tables: with this process's random seed, or with the caller's.
uint64_t map_hash(struct str key);
uint64_t map_hash_seeded(const uint64_t seed[2], struct str key);
