// Idempotency-Key: the same key gives the first answer again, for a day.
//
// An entry is made when a request begins and gets its answer when there is one. Keys count per
// operation; callers are all the same user. What was asked is kept as two independent hashes of 64
// bits, so that a key used for something else is noticed without keeping the request.
//
// Bounds: ENTRIES, and BODIES bytes of answers; the oldest finished ones are dropped for new ones. Running ones stay.
// Of a streamed turn its id is kept: its events are in the journal of the session.
// Answers of 500 and above are not kept, so that the caller may try again. Nor is an answer above BODIES.

#include <assert.h>

#include "server/server_int.h"

enum { ENTRIES = 1000, BODIES = 1024 * 1024 };
static const uint64_t DAY_MS = 24ULL * 3600 * 1000;

struct idem_entry {
    struct idem_entry *older, *newer;
    char *key; // as in the map
    size_t key_n;
    uint64_t asked[2], expires;
    bool running, streamed;
    uint64_t after;
    int status;
    char *type, *location, *body;
    size_t body_n;
};

struct idem {
    struct loop *loop;
    struct map entries;
    struct idem_entry *oldest, *newest;
    size_t bodies;
    uint64_t seeds[2][2];
};

void idem__drop(struct idem *t, struct idem_entry *x)
{
    assert(t->bodies >= x->body_n);
    map_remove(&t->entries, (struct str){x->key, x->key_n});
    *(x->older != NULL ? &x->older->newer : &t->oldest) = x->newer;
    *(x->newer != NULL ? &x->newer->older : &t->newest) = x->older;
    t->bodies -= x->body_n;
    free(x->key);
    free(x->type);
    free(x->location);
    free(x->body);
    free(x);
}

// Make room: drop what is too old, then the oldest finished ones while a bound is passed.
static bool make_room(struct idem *t, size_t more_entries, size_t more_bytes)
{
    uint64_t now = loop_now(t->loop);
    for (struct idem_entry *x = t->oldest, *next; x != NULL; x = next) {
        next = x->newer;
        bool over = t->entries.n + more_entries > ENTRIES || t->bodies + more_bytes > BODIES;
        if (!over && x->expires > now) {
            break;
        }
        if (!x->running) {
            idem__drop(t, x);
        }
    }
    return t->entries.n + more_entries <= ENTRIES && t->bodies + more_bytes <= BODIES;
}

struct idem *idem__new(struct loop *l)
{
    struct idem *t = xcalloc(1, sizeof *t);
    t->loop = l;
    map_init(&t->entries);
    for (uint64_t i = 0; i < 4; i++) { // map_hash() has a random seed of its own
        t->seeds[i / 2][i % 2] = map_hash((struct str){(const char *)&i, sizeof i});
    }
    return t;
}

void idem__free(struct idem *t)
{
    while (t->oldest != NULL) {
        idem__drop(t, t->oldest);
    }
    map_fini(&t->entries);
    free(t);
}

enum idem_found idem__begin(struct idem *t, enum op_id op, struct str key, struct str asked,
                            struct str body, struct idem_entry **entry, struct idem_answer *answer)
{
    char text[300];
    uint64_t print[2];
    int n = snprintf(text, sizeof text, "%d " STR_FMT, (int)op, STR_ARG(key));
    struct str full = {text, MIN((size_t)n, sizeof text - 1)};
    struct idem_entry *x = map_get(&t->entries, full);
    for (size_t i = 0; i < 2; i++) {
        uint64_t parts[2] = {map_hash_seeded(t->seeds[i], asked),
                             map_hash_seeded(t->seeds[i], body)};
        print[i] = map_hash_seeded(t->seeds[i], (struct str){(const char *)parts, sizeof parts});
    }
    *entry = NULL;
    if (x != NULL && x->expires <= loop_now(t->loop) && !x->running) {
        idem__drop(t, x);
        x = NULL;
    }
    if (x == NULL && make_room(t, 1, 0)) {
        *entry = x = xcalloc(1, sizeof *x);
        x->key = str_dup(full);
        x->key_n = full.n;
        memcpy(x->asked, print, sizeof x->asked);
        x->running = true;
        x->expires = loop_now(t->loop) + DAY_MS;
        x->older = t->newest;
        *(t->newest != NULL ? &t->newest->newer : &t->oldest) = x;
        t->newest = x;
        map_set(&t->entries, full, x);
    }
    if (x == NULL || x == *entry) {
        return IDEM_NEW;
    }
    if (memcmp(x->asked, print, sizeof print) != 0) {
        return IDEM_DIFFERENT;
    }
    if (x->running) {
        return IDEM_RUNNING;
    }
    *answer = (struct idem_answer){.status = x->status,
                                   .type = x->type,
                                   .location = x->location,
                                   .body = {x->body, x->body_n},
                                   .streamed = x->streamed,
                                   .after = x->after};
    return IDEM_REPLAY;
}

void idem__finish(struct idem *t, struct idem_entry *x, const struct idem_answer *answer)
{
    // an answer that can never fit must not push out all the others
    if (answer->status >= 500 || answer->body.n > BODIES || !make_room(t, 0, answer->body.n)) {
        idem__drop(t, x);
        return;
    }
    assert(x->running);
    x->running = false;
    x->status = answer->status;
    x->type = answer->type != NULL ? xstrdup(answer->type) : NULL;
    x->location = answer->location != NULL ? xstrdup(answer->location) : NULL;
    x->body = str_dup(answer->body);
    x->body_n = answer->body.n;
    x->streamed = answer->streamed;
    x->after = answer->after;
    t->bodies += x->body_n;
}
