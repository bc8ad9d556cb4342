// An immutable set of handlers, sorted once and then only read.
//
//     places (any order) ── drop gone and replaced ──> sort ──> one array of handlers
//                                                                 └ lists point into it
//     map: "c:on_tool_call" ──> list {point, kind, hooks, n}
//
// Invariants:
//   - the handlers of one list are side by side, in the order in which they run.
//   - the set has one reference on each handler it lists.

#include "hook/set.h"

#include <assert.h>

#include "base/map.h"

struct hook_set {
    struct hook_keeper keeper;
    struct map by_point; // key of list_key() to a list
    struct hook_list *lists;
    size_t n_lists;
    struct hook **hooks;
    size_t n_hooks;
};

// ---- order --------------------------------------------------------------------------------

static int compare_lists(const struct hook *a, const struct hook *b)
{
    int c = strcmp(a->point, b->point);
    return c != 0 ? c : (int)a->kind - (int)b->kind;
}

/// By list, then name, then newest first: finds what was replaced.
static int by_name(const void *pa, const void *pb)
{
    const struct hook *a = ((const struct hook_place *)pa)->hook;
    const struct hook *b = ((const struct hook_place *)pb)->hook;
    int c = compare_lists(a, b);
    if (c == 0) {
        c = strcmp(a->name != NULL ? a->name : "", b->name != NULL ? b->name : "");
    }
    return c != 0 ? c : (a->terms.order < b->terms.order) - (a->terms.order > b->terms.order);
}

/// By list, then as they run.
static int by_turn(const void *pa, const void *pb)
{
    const struct hook_place *x = pa, *y = pb;
    const struct hook *a = x->hook, *b = y->hook;
    int c = compare_lists(a, b);
    if (c == 0) {
        c = (a->terms.priority < b->terms.priority) - (a->terms.priority > b->terms.priority);
    }
    if (c == 0) {
        c = (x->rank > y->rank) - (x->rank < y->rank);
    }
    return c != 0 ? c : (a->terms.order > b->terms.order) - (a->terms.order < b->terms.order);
}

/// Keep what is to run; returns how many.
static size_t select_live(struct hook_place *places, size_t n)
{
    size_t live = 0;
    bool named = false; // only a handler with a name can be replaced
    for (size_t i = 0; i < n; i++) {
        if (!places[i].hook->gone) {
            places[live++] = places[i];
            named = named || places[i].hook->name != NULL;
        }
    }
    if (named) {
        qsort(places, live, sizeof *places, by_name);
    }

    size_t kept = 0;
    for (size_t i = 0; i < live; i++) {
        const struct hook *h = places[i].hook, *newer = kept != 0 ? places[kept - 1].hook : NULL;
        bool replaced = newer != NULL && h->name != NULL && newer->name != NULL &&
                        compare_lists(h, newer) == 0 && strcmp(h->name, newer->name) == 0;
        if (!replaced) {
            places[kept++] = places[i];
        }
    }
    qsort(places, kept, sizeof *places, by_turn);
    return kept;
}

// ---- lists --------------------------------------------------------------------------------

enum { KEY_MAX = 256 };

/// The key of a list in `out`, or in a string of its own in `*heap` when it is too long for that.
static struct str list_key(char out[KEY_MAX], char **heap, struct str point, enum hook_kind kind)
{
    *heap = point.n + 1 > KEY_MAX ? xmalloc(point.n + 1) : NULL;
    char *key = *heap != NULL ? *heap : out;
    key[0] = (char)('0' + kind);
    memcpy(key + 1, point.p, point.n);
    return (struct str){key, point.n + 1};
}

static void fill(struct hook_set *s, const struct hook_place *places, size_t n)
{
    struct hook_list *l = NULL;
    s->hooks = xcalloc(MAX(n, 1), sizeof(struct hook *));
    size_t lists = 0;
    for (size_t i = 0; i < n; i++) {
        lists += i == 0 || compare_lists(places[i - 1].hook, places[i].hook) != 0;
    }
    s->lists = xcalloc(MAX(lists, 1), sizeof *s->lists);
    for (size_t i = 0; i < n; i++) {
        struct hook *h = hook_ref(places[i].hook);
        s->hooks[i] = h;
        if (i == 0 || compare_lists(places[i - 1].hook, h) != 0) {
            l = &s->lists[s->n_lists++];
            *l = (struct hook_list){
                .keeper = &s->keeper, .point = h->point, .kind = h->kind, .hooks = &s->hooks[i]};
        }
        l->n++;
    }
    assert(s->n_lists == lists);
    s->n_hooks = n;
    for (size_t i = 0; i < s->n_lists; i++) {
        char space[KEY_MAX], *heap;
        l = &s->lists[i];
        map_set(&s->by_point, list_key(space, &heap, str_of(l->point), l->kind), l);
        free(heap);
    }
}

// ---- public -------------------------------------------------------------------------------

struct hook_set *hook_set_new(const struct hook_place *places, size_t n,
                              const struct hook_keeper *keeper)
{
    struct hook_set *s = xcalloc(1, sizeof *s);
    if (keeper != NULL) {
        s->keeper = *keeper;
    }
    struct hook_place *mine = xcalloc(MAX(n, 1), sizeof *mine);
    if (n != 0) {
        memcpy(mine, places, n * sizeof *mine);
    }
    fill(s, mine, select_live(mine, n));
    free(mine);
    return s;
}

void hook_set_free(struct hook_set *s)
{
    if (s == NULL) {
        return;
    }
    map_fini(&s->by_point);
    for (size_t i = 0; i < s->n_hooks; i++) {
        hook_unref(s->hooks[i]);
    }
    free(s->hooks);
    free(s->lists);
    free(s);
}

const struct hook_list *hook_set_get(const struct hook_set *s, struct str point,
                                     enum hook_kind kind)
{
    char space[KEY_MAX], *heap;
    const struct hook_list *l = map_get(&s->by_point, list_key(space, &heap, point, kind));
    free(heap);
    return l;
}

struct hook *hook_set_find(const struct hook_set *s, struct str point, enum hook_kind kind,
                           struct str name)
{
    const struct hook_list *l = hook_set_get(s, point, kind);
    for (size_t i = 0; l != NULL && i < l->n; i++) {
        if (l->hooks[i]->name != NULL && str_eqz(name, l->hooks[i]->name)) {
            return l->hooks[i];
        }
    }
    return NULL;
}

const struct hook_list *hook_set_next(const struct hook_set *s, size_t *at)
{
    return *at < s->n_lists ? &s->lists[(*at)++] : NULL;
}
