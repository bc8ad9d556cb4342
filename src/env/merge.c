// Merge, not restore.
//
// We never know what a shell holds right now: its user works in it. We know the environment it started with
// (outer), what it last acknowledged, and what was offered since and may or may not have been applied. So
// every text is written for all of these cases at once:
//
//     acknowledged ── offered ── offered ── r      `states`, oldest first, then the new one
//
//   - a plain variable is changed only if its value is one that some state would have given it; any
//     other value is the user's and stays.
//   - of a list (PATH) the elements of all states go and the new ones come; anything else in it, and its
//     order, is the user's. An element that was in the outer list too returns to its place.
//   - a variable that all states and the new result agree on produces no text.

#include "env/merge.h"

#include <assert.h>

#include "env/paths.h"
#include "env/result.h"
#include "env/vars.h"

struct merge_entry {
    const char *value;               // NULL: unset by us
    const struct env_list *lists[2]; // in front and at the end; both NULL for a plain variable
    bool plain;
};

struct merge_state {
    struct env_result *result; // NULL: nothing of ours
    uint64_t generation;
};

// A shell acknowledges as it applies, so of many offers only the last can be on their way.
enum { OFFERS_MAX = 16 };

struct env_session {
    struct arena arena;
    struct env_vars outer;
    vec(struct merge_state) states; // [0] is acknowledged
    uint64_t count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct env_var *)a)->name, ((const struct env_var *)b)->name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// bsearch() that may be given no array.
static const void *bsearch_in(const void *key, const void *all, size_t n, size_t size,
                              int (*order)(const void *a, const void *b))
{
    return n != 0 ? bsearch(key, all, n, size, order) : NULL;
}

// What `r` says about `name`.
static struct merge_entry entry_of(const struct env_result *r, const char *name)
{
    struct merge_entry e = {0};
    if (r == NULL) {
        return e;
    }
    const struct env_var key = {.name = name};
    const struct env_var *set = bsearch_in(&key, r->set.p, r->set.n, sizeof key, by_name);
    e.value = set != NULL ? set->value : NULL;
    e.plain =
        set != NULL || bsearch_in(&name, r->unset.p, r->unset.n, sizeof name, by_text) != NULL;
    e.lists[0] = env_list_find(r->prepend.p, r->prepend.n, name);
    e.lists[1] = env_list_find(r->append.p, r->append.n, name);
    return e;
}

static bool is_list(const struct merge_entry *e)
{
    return e->lists[0] != NULL || e->lists[1] != NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_list(const struct env_list *a, const struct env_list *b)
{
    size_t n_a = a != NULL ? a->n : 0, n_b = b != NULL ? b->n : 0;
    for (size_t i = 0; n_a == n_b && i < n_a; i++) {
        if (strcmp(a->items[i], b->items[i]) != 0) {
            return false;
        }
    }
    return n_a == n_b;
}

// ---- plain variables -------------------------------------------------------------------------

// The value that a state would have given it.
static const char *value_in(const struct env_session *s, const struct env_result *r,
                            const char *name)
{
    struct merge_entry e = entry_of(r, name);
    return e.plain ? e.value : env_vars_get(&s->outer, str_of(name));
}

static void merge_plain(const struct env_session *s, const struct env_result *r, const char *name,
                        struct env_ops *ops)
{
    const char *want = value_in(s, r, name);
    struct env_expect *expect = arena_calloc(&ops->arena, s->states.n, sizeof *expect);
    struct env_op op = {.kind = want != NULL ? ENV_OP_SET : ENV_OP_UNSET, .expect = expect};
    bool agreed = true;
    vec_foreach (st, &s->states) {
        const char *value = value_in(s, st->result, name);
        size_t i = 0;
        while (i < op.n_expect && !same_text(expect[i].value, value)) {
            i++;
        }
        if (i == op.n_expect) {
            const char *copy = value != NULL ? arena_strdup(&ops->arena, str_of(value)) : NULL;
            expect[op.n_expect++].value = copy;
        }
        agreed = agreed && same_text(value, want);
    }
    assert(op.n_expect <= s->states.n);
    if (!agreed) {
        op.name = arena_strdup(&ops->arena, str_of(name));
        op.value = want != NULL ? arena_strdup(&ops->arena, str_of(want)) : NULL;
        vec_push(&ops->all, op);
    }
}

// ---- lists -----------------------------------------------------------------------------------

static const char *joined(struct env_ops *ops, const struct env_list *l)
{
    return l != NULL ? env_paths_join(&ops->arena, l->items, l->n) : "";
}

// All elements that some state has and `now` has not.
static const char *leaving(const struct env_session *s, const char *name,
                           const struct merge_entry *now, struct env_ops *ops)
{
    vec(const char *) items = {0};
    vec_foreach (st, &s->states) {
        struct merge_entry e = entry_of(st->result, name);
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; e.lists[side] != NULL && i < e.lists[side]->n; i++) {
                struct str item = str_of(e.lists[side]->items[i]);
                bool stays = str_lookup(item, items.p, items.n) >= 0;
                for (int k = 0; k < 2 && !stays; k++) {
                    const struct env_list *l = now->lists[k];
                    stays = l != NULL && str_lookup(item, l->items, l->n) >= 0;
                }
                if (!stays) {
                    vec_push(&items, item.p);
                }
            }
        }
    }
    const char *text = env_paths_join(&ops->arena, items.p, items.n);
    vec_fini(&items);
    return text;
}

// Elements that go and were in the outer list return to their place there.
static void bring_back(const struct env_session *s, const struct env_op *list, struct env_ops *ops)
{
    size_t n_old, n_outer, n_front;
    struct arena *a = &ops->arena;
    const char **old = env_paths_split(a, list->old, &n_old);
    const char **outer = env_paths_split(a, env_vars_get(&s->outer, str_of(list->name)), &n_outer);
    const char **front = env_paths_split(a, list->front, &n_front);
    for (size_t i = 0; i < n_outer; i++) {
        if (str_lookup(str_of(outer[i]), old, n_old) < 0) {
            continue;
        }
        const char **before = arena_calloc(a, i + 2, sizeof *before);
        for (size_t k = 0; k < i; k++) {
            before[k] = outer[i - 1 - k];
        }
        if (n_front != 0) {
            before[i] = front[n_front - 1];
        }
        struct env_op op = {.kind = ENV_OP_BACK,
                            .name = list->name,
                            .value = outer[i],
                            .back = env_paths_join(a, before, i + (n_front != 0))};
        vec_push(&ops->all, op);
    }
}

static void merge_list(const struct env_session *s, const struct env_result *r, const char *name,
                       struct env_ops *ops)
{
    struct merge_entry now = entry_of(r, name);
    bool agreed = true;
    vec_foreach (st, &s->states) {
        struct merge_entry e = entry_of(st->result, name);
        agreed =
            agreed && same_list(e.lists[0], now.lists[0]) && same_list(e.lists[1], now.lists[1]);
    }
    if (agreed) {
        return;
    }
    struct env_op op = {.kind = ENV_OP_LIST,
                        .name = arena_strdup(&ops->arena, str_of(name)),
                        .old = leaving(s, name, &now, ops),
                        .front = joined(ops, now.lists[0]),
                        .back = joined(ops, now.lists[1]),
                        .outer = env_vars_get(&s->outer, str_of(name)) != NULL};
    vec_push(&ops->all, op);
    bring_back(s, &op, ops);
}

// ---- functions -------------------------------------------------------------------------------

static const char *function_in(const struct env_result *r, const char *name)
{
    for (size_t i = 0; r != NULL && i < r->functions.n; i++) {
        if (strcmp(r->functions.p[i].name, name) == 0) {
            return r->functions.p[i].value;
        }
    }
    return "";
}

static void merge_function(const struct env_session *s, const struct env_result *r,
                           const char *name, struct env_ops *ops)
{
    const char *want = function_in(r, name);
    bool agreed = true;
    vec_foreach (st, &s->states) {
        agreed = agreed && strcmp(function_in(st->result, name), want) == 0;
    }
    vec_foreach (op, &ops->all) {
        agreed = agreed || (op->kind == ENV_OP_FUNCTION && strcmp(op->name, name) == 0);
    }
    if (!agreed) {
        struct env_op op = {.kind = ENV_OP_FUNCTION,
                            .name = arena_strdup(&ops->arena, str_of(name)),
                            .value = arena_strdup(&ops->arena, str_of(want))};
        vec_push(&ops->all, op);
    }
}

// ---- all names -------------------------------------------------------------------------------

static void add_names(struct env_vars *names, const struct env_result *r)
{
    if (r == NULL) {
        return;
    }
    vec_foreach (v, &r->set) {
        env_vars_set(names, str_of(v->name), STR("-"));
    }
    vec_foreach (name, &r->unset) {
        env_vars_set(names, str_of(*name), STR("-"));
    }
    vec_foreach (l, &r->prepend) {
        env_vars_set(names, str_of(l->name), STR("-"));
    }
    vec_foreach (l, &r->append) {
        env_vars_set(names, str_of(l->name), STR("-"));
    }
}

// A variable may be plain in one state and a list in another: what goes comes before what comes.
static void merge_name(const struct env_session *s, const struct env_result *r, const char *name,
                       struct env_ops *ops)
{
    struct merge_entry now = entry_of(r, name);
    bool list = is_list(&now), plain = now.plain;
    vec_foreach (st, &s->states) {
        struct merge_entry e = entry_of(st->result, name);
        list = list || is_list(&e);
        plain = plain || e.plain;
    }
    if (list && now.plain) {
        merge_list(s, r, name, ops);
    }
    if (plain) {
        merge_plain(s, r, name, ops);
    }
    if (list && !now.plain) {
        merge_list(s, r, name, ops);
    }
}

struct env_session *env_session_new(const char *const *outer)
{
    struct env_session *s = xcalloc(1, sizeof *s);
    struct merge_state nothing = {0};
    env_vars_init(&s->outer, &s->arena);
    env_vars_add_environ(&s->outer, outer);
    vec_push(&s->states, nothing);
    return s;
}

void env_session_free(struct env_session *s)
{
    if (s == NULL) {
        return;
    }
    vec_foreach (st, &s->states) {
        env_result_unref(st->result);
    }
    vec_fini(&s->states);
    env_vars_fini(&s->outer);
    arena_fini(&s->arena);
    free(s);
}

void env_session_applied(struct env_session *s, uint64_t generation)
{
    size_t at = s->states.n;
    while (at != 0 && s->states.p[at - 1].generation != generation) {
        at--;
    }
    if (at <= 1) {
        return; // unknown, or acknowledged already
    }
    assert(at <= s->states.n);
    for (size_t i = 0; i + 1 < at; i++) {
        env_result_unref(s->states.p[0].result);
        vec_remove(&s->states, 0);
    }
    s->count = generation != 0 ? s->count + 1 : 0;
}

void env_session_merge(struct env_session *s, const struct env_result *r, struct env_ops *ops)
{
    assert(s->states.n != 0);
    struct env_vars names;
    size_t n;
    *ops = (struct env_ops){.count = r != NULL ? s->count + 1 : 0};
    env_vars_init(&names, &ops->arena);
    vec_foreach (st, &s->states) {
        add_names(&names, st->result);
    }
    add_names(&names, r);
    const char **sorted = env_vars_names(&names, &n);
    for (size_t i = 0; i < n; i++) {
        merge_name(s, r, sorted[i], ops);
    }
    vec_foreach (st, &s->states) {
        for (size_t i = 0; st->result != NULL && i < st->result->functions.n; i++) {
            merge_function(s, r, st->result->functions.p[i].name, ops);
        }
    }
    for (size_t i = 0; r != NULL && i < r->functions.n; i++) {
        merge_function(s, r, r->functions.p[i].name, ops);
    }
    struct merge_entry path = entry_of(r, "PATH");
    ops->path_front = joined(ops, path.lists[0]);
    env_vars_fini(&names);
    struct merge_state offered = {.result = (struct env_result *)(uintptr_t)r,
                                  .generation = r != NULL ? r->generation : 0};
    if (r != NULL) {
        env_result_ref(offered.result);
    }
    vec_push(&s->states, offered);
    if (s->states.n > 1 + OFFERS_MAX) {
        env_result_unref(s->states.p[1].result);
        vec_remove(&s->states, 1);
    }
}

void env_ops_fini(struct env_ops *ops)
{
    vec_fini(&ops->all);
    arena_fini(&ops->arena);
}
