// Repeated keys of one object, found in linear time.
//
// Nearly every object has a handful of keys; comparing each with the ones before it is then the fastest way. An
// object from outside may have a million keys, where that would take hours, so above a few the keys go through a
// hash table of their indexes. The hash is seeded, so that keys cannot be chosen to collide.

#include <assert.h>

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

/// Index of the member in m[0..n) that has `key`, or `n`, and then `key` is noted as member `n`.
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
        size_t at = 0; // of the member before that has this key
        if (n > FEW) {
            at = find_in_table(k, mask, m, left, m[i].key);
        } else {
            while (at < left && !str_eq(m[at].key, m[i].key)) {
                at++;
            }
            k->visits += at;
        }
        if (at < left) {
            m[at].value = m[i].value;
            *dup = MIN(*dup, i);
        } else {
            m[left++] = m[i];
        }
    }
    return left;
}

bool json_fold(struct json *obj)
{
    struct json__keys unique = {0};
    size_t dup, n = obj->n;
    assert(obj->type == JSON_OBJ);
    obj->n = (uint32_t)json__keys_fold(&unique, obj->members, n, &dup);
    json__keys_fini(&unique);
    return dup < n;
}
