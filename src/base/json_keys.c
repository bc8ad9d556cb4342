// Repeated keys of one object, found in linear time.
//
// Nearly every object has a handful of keys; comparing each with the ones before it is then the
// fastest way. From outside may come an object of a million keys, where that would take hours, so
// above a few the keys go through a hash table of their indexes. The hash is seeded: nobody can
// choose keys that collide.

#include "base/json_int.h"
#include "base/map.h"

enum { FEW = 16 };

/// Start a table with room for `n` keys, at most half full. Returns its mask.
static size_t table_start(struct json__keys *k, size_t n)
{
    size_t size = 64;
    while (size < 2 * n) {
        size *= 2;
    }
    if (k->cap < size) {
        free(k->table);
        k->table = xcalloc(size, sizeof *k->table);
        k->cap = size;
    } else {
        memset(k->table, 0, size * sizeof *k->table);
    }
    return size - 1;
}

/// Index of the member in m[0..n) that has `key`, or `n`.
static size_t find_among_few(struct json__keys *k, const struct json_member *m, size_t n,
                             struct str key)
{
    size_t i = 0;
    while (i < n && !str_eq(m[i].key, key)) {
        i++;
    }
    k->visits += i;
    return i;
}

/// The same by table, where `key` is noted as member `n` when it is new.
static size_t find_in_table(struct json__keys *k, size_t mask, const struct json_member *m,
                            size_t n, struct str key)
{
    size_t at = (size_t)map_hash(key) & mask;
    while (k->table[at] != 0) {
        size_t i = k->table[at] - 1;
        k->visits++;
        if (str_eq(m[i].key, key)) {
            return i;
        }
        at = (at + 1) & mask;
    }
    k->table[at] = (uint32_t)n + 1;
    return n;
}

void json__keys_fini(struct json__keys *k)
{
    free(k->table);
    *k = (struct json__keys){0};
}

size_t json__keys_fold(struct json__keys *k, struct json_member *m, size_t n, size_t *dup)
{
    size_t mask = n > FEW ? table_start(k, n) : 0;
    size_t left = 0;
    *dup = n;
    for (size_t i = 0; i < n; i++) {
        size_t at = n > FEW ? find_in_table(k, mask, m, left, m[i].key)
                            : find_among_few(k, m, left, m[i].key);
        if (at < left) {
            m[at].value = m[i].value;
            *dup = MIN(*dup, i);
        } else {
            m[left++] = m[i];
        }
    }
    return left;
}
