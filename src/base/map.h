#pragma once

#include "base/str.h"

/// String-keyed hash map of pointers. Keys are copied; values are the caller's. The hash is seeded
/// at random, so that keys from outside cannot be chosen to collide.
struct map {
    struct map_slot *slots;
    size_t n;    // keys held
    size_t cap;  // slots, a power of two
    size_t used; // slots not free: held or deleted
};

void map_init(struct map *m);
void map_fini(struct map *m); // frees keys, not values; leaves an empty map

void *map_get(const struct map *m, struct str key); // NULL when absent
/// Set `key` to `value` (not NULL) and return what it replaced, or NULL.
void *map_set(struct map *m, struct str key, void *value);
/// Take `key` out and return its value, or NULL when absent.
void *map_remove(struct map *m, struct str key);

/// Walk: `size_t at = 0; while (map_next(m, &at, &key, &value)) ...`, in no order. Removing the
/// current key meanwhile is allowed, adding is not.
bool map_next(const struct map *m, size_t *at, struct str *key, void **value);

/// The hash itself (SipHash-1-3), for other tables: under this process's random seed, or under one
/// of the caller's.
uint64_t map_hash(struct str key);
uint64_t map_hash_seeded(const uint64_t seed[2], struct str key);
