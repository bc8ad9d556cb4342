// Hash map with open addressing and linear probing.
//
//     hash & (cap - 1)
//           |
//     [free][a][b][deleted][c][free]     a lookup walks right until it meets a free slot
//
// A removed key leaves a mark, so that walks do not stop before later keys. The table is rebuilt, without
// marks, when three quarters of the slots are not free, at twice the number of keys: a table with many
// marks and few keys shrinks, a full one doubles.
//
// Keys come from outside (session names, header names, JSON members), so the hash is SipHash-1-3 with a
// seed that is drawn once per process.
//
// Invariants:
//   - cap is 0 or a power of two; n <= used < cap, so a walk always ends.
//   - a slot with a key has a value; a slot without one is free (mark false) or deleted (mark true).

#include "base/map.h"

#include <assert.h>
#include <pthread.h>

#include "base/random.h"

enum { SMALLEST = 16 };

struct map_slot {
    char *key; // owned, NULL in a slot that holds nothing
    size_t n;
    uint64_t hash;
    void *value;
    bool mark; // something was deleted here
};

// ---- the hash ------------------------------------------------------------------------------

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static uint64_t load_le(const char *p, size_t n)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) {
        x |= (uint64_t)(unsigned char)p[i] << (8 * i);
    }
    return x;
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

static uint64_t process_seed[2];

static void draw_seed(void)
{
    random_bytes(process_seed, sizeof process_seed);
}

uint64_t map_hash(struct str key)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw_seed);
    return map_hash_seeded(process_seed, key);
}

uint64_t map_hash_seeded(const uint64_t seed[2], struct str key)
{
    uint64_t v[4] = {
        seed[0] ^ 0x736f6d6570736575u, // the constants spell "somepseudorandomlygeneratedbytes"
        seed[1] ^ 0x646f72616e646f6du,
        seed[0] ^ 0x6c7967656e657261u,
        seed[1] ^ 0x7465646279746573u,
    };
    size_t i = 0;
    for (; key.n - i >= 8; i += 8) {
        sip_word(v, load_le(key.p + i, 8));
    }
    sip_word(v, load_le(i < key.n ? key.p + i : "", key.n - i) | (uint64_t)key.n << 56);
    v[2] ^= 0xff;
    for (int round = 0; round < 3; round++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// ---- the table -----------------------------------------------------------------------------

// The slot that holds `key`, or NULL.
static struct map_slot *find(const struct map *m, struct str key, uint64_t hash)
{
    if (m->n == 0) {
        return NULL;
    }
    assert(m->n <= m->used && m->used < m->cap);
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct map_slot *s = &m->slots[i];
        if (s->key == NULL && !s->mark) {
            return NULL;
        }
        if (s->key != NULL && s->hash == hash && str_eq((struct str){s->key, s->n}, key)) {
            return s;
        }
    }
}

// The first slot on the key's walk that holds nothing. The key must not be in the table.
static struct map_slot *find_vacant(struct map_slot *slots, size_t cap, uint64_t hash)
{
    size_t i = hash & (cap - 1);
    while (slots[i].key != NULL) {
        i = (i + 1) & (cap - 1);
    }
    return &slots[i];
}

void map_init(struct map *m)
{
    *m = (struct map){0};
}

void map_fini(struct map *m)
{
    for (size_t i = 0; i < m->cap; i++) {
        free(m->slots[i].key);
    }
    free(m->slots);
    map_init(m);
}

void *map_get(const struct map *m, struct str key)
{
    const struct map_slot *s = find(m, key, map_hash(key));
    return s != NULL ? s->value : NULL;
}

void *map_set(struct map *m, struct str key, void *value)
{
    assert(value != NULL);
    uint64_t hash = map_hash(key);
    struct map_slot *s = find(m, key, hash);
    if (s != NULL) {
        void *old = s->value;
        s->value = value;
        return old;
    }
    if ((m->used + 1) * 4 > m->cap * 3) {
        size_t cap = SMALLEST;
        while (cap < 2 * (m->n + 1)) {
            cap *= 2;
        }
        struct map_slot *slots = xcalloc(cap, sizeof *slots);
        for (size_t i = 0; i < m->cap; i++) {
            if (m->slots[i].key != NULL) {
                struct map_slot *to = find_vacant(slots, cap, m->slots[i].hash);
                *to = m->slots[i];
                to->mark = false;
            }
        }
        free(m->slots);
        m->slots = slots;
        m->cap = cap;
        m->used = m->n;
    }
    s = find_vacant(m->slots, m->cap, hash);
    m->used += !s->mark;
    m->n++;
    *s = (struct map_slot){.key = str_dup(key), .n = key.n, .hash = hash, .value = value};
    return NULL;
}

void *map_remove(struct map *m, struct str key)
{
    struct map_slot *s = find(m, key, map_hash(key));
    if (s == NULL) {
        return NULL;
    }
    void *value = s->value;
    free(s->key);
    *s = (struct map_slot){.mark = true};
    assert(m->n != 0);
    m->n--;
    return value;
}

bool map_next(const struct map *m, size_t *at, struct str *key, void **value)
{
    while (*at < m->cap) {
        const struct map_slot *s = &m->slots[(*at)++];
        if (s->key != NULL) {
            *key = (struct str){s->key, s->n};
            *value = s->value;
            return true;
        }
    }
    return false;
}
