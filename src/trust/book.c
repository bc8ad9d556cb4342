// The book in memory: places, their items, their hashes.
//
// Every save of every plugin asks, on the loop: two look-ups in maps and a walk along the hashes of one item.
// Strings live in one arena; what is forgotten stays there until the book is read again, as every change does.

#include <assert.h>

#include "trust/trust_int.h"

enum { KEY_MAX = 4096 + 32 };

/// "plugin:.afloat/plugins/x.lua". Longer than any path is no item's.
static struct str key_of(char out[KEY_MAX], enum trust_kind kind, const char *path)
{
    int n = snprintf(out, KEY_MAX, "%s:%s", trust_kind_name(kind), path);
    return (struct str){out, MIN((size_t)n, (size_t)KEY_MAX - 1)};
}

static void place_fini(struct trust__place *p)
{
    vec_foreach (it, &p->items) {
        vec_fini(&(*it)->hashes);
    }
    vec_fini(&p->items);
    map_fini(&p->by_key);
}

void trust__book_fini(struct trust__book *b)
{
    vec_fini_each(&b->places, place_fini);
    map_fini(&b->by_path);
    arena_fini(&b->arena);
}

struct trust__place *trust__find(const struct trust__book *b, const char *path)
{
    return map_get(&b->by_path, str_of(path));
}

struct trust__item *trust__find_item(const struct trust__place *p, enum trust_kind kind,
                                     const char *path)
{
    char key[KEY_MAX];
    return map_get(&p->by_key, key_of(key, kind, path));
}

struct trust__place *trust__place(struct trust__book *b, const char *path)
{
    struct trust__place *p = trust__find(b, path);
    if (p == NULL) {
        p = arena_calloc(&b->arena, 1, sizeof *p);
        p->path = arena_strdup(&b->arena, str_of(path));
        map_set(&b->by_path, str_of(path), p);
        vec_push(&b->places, p);
    }
    return p;
}

struct trust__item *trust__item(struct trust__book *b, struct trust__place *p, enum trust_kind kind,
                                const char *path)
{
    char key[KEY_MAX];
    struct trust__item *it = trust__find_item(p, kind, path);
    if (it == NULL) {
        it = arena_calloc(&b->arena, 1, sizeof *it);
        it->kind = kind;
        it->path = arena_strdup(&b->arena, str_of(path));
        map_set(&p->by_key, key_of(key, kind, path), it);
        vec_push(&p->items, it);
    }
    return it;
}

void trust__add_hash(struct trust__book *b, struct trust__item *it, const char *hash)
{
    for (size_t i = 0; i < it->hashes.n; i++) {
        if (strcmp(it->hashes.p[i], hash) == 0) {
            const char *known = it->hashes.p[i];
            vec_remove(&it->hashes, i);
            vec_push(&it->hashes, known);
            return;
        }
    }
    assert(strlen(hash) == SHA256_HEX - 1);
    const char *copy = arena_strdup(&b->arena, str_of(hash));
    vec_push(&it->hashes, copy);
}

bool trust__forget(struct trust__book *b, const char *path)
{
    for (size_t i = 0; i < b->places.n; i++) {
        struct trust__place *p = b->places.p[i];
        if (strcmp(p->path, path) == 0) {
            vec_remove(&b->places, i);
            map_remove(&b->by_path, str_of(path));
            place_fini(p);
            return true;
        }
    }
    return false;
}
