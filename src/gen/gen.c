// One generation: a sorted set of units and the indexes over what they contribute.
//
// It is built completely before other code sees it and never changes afterwards, so that swapping one
// pointer swaps everything, and code that pinned the old one still has all of it. Building is a plain
// walk over all items rather than a difference to the last set: a thousand items cost well below a
// millisecond, and there is only one way to be right.
//
//     units in load order ──> items ──┬── hooks: one hook_set, ranked by load order
//                                     └── names: "tool" + "roll"          the first in load order
//                                                "tool" + "unit:roll"     always this one
//                                                a second "roll"          a conflict: both named
//
// Invariants:
//   - the generation holds a reference on each unit and item in it, and the hook set on each handler.
//   - at the last unpin it is freed by a task of the loop, never inside the caller: what is released
//     may be the code that is running.

#include <assert.h>

#include "gen/gen_int.h"

static const enum gen_code conflict_codes[GEN__KINDS] = {
#define KIND(id, name, code, event) [GEN_##id] = code,
#include "gen/kinds.def"
#undef KIND
};

const char *const gen__list_events[GEN__KINDS] = {
#define KIND(id, name, code, event) [GEN_##id] = event,
#include "gen/kinds.def"
#undef KIND
};

// ---- order --------------------------------------------------------------------------------

static int by_load_order(const void *pa, const void *pb)
{
    const struct gen_unit *a = *(struct gen_unit *const *)pa, *b = *(struct gen_unit *const *)pb;
    if (a->owner != b->owner) {
        return a->owner->index < b->owner->index ? -1 : 1;
    }
    if (a->order != b->order) {
        return a->order < b->order ? -1 : 1;
    }
    return (a->seq > b->seq) - (a->seq < b->seq);
}

// ---- names --------------------------------------------------------------------------------

/// `first` has the name of `it`; NULL: a built-in tool has.
static void note_conflict(struct gen *g, const struct gen_item *first, const struct gen_item *it)
{
    const char *unit = it->unit->name;
    char *message =
        first != NULL
            ? xasprintf("%s '%s' of '%s' is taken by '%s'", gen_kind_name(it->kind), it->name, unit,
                        first->unit->name)
            : xasprintf("tool '%s' of '%s' has the name of a built-in tool", it->name, unit);
    char *hint = first != NULL ? xasprintf("it answers to '%s'", it->alias)
                               : xstrdup("say `override = true` to take its place");
    struct gen_diag d = {
        .code = first != NULL ? conflict_codes[it->kind] : DIAG_BUILTIN_CONFLICT,
        .plugin = unit,
        .origin = it->unit->origin,
        .path = it->unit->path,
        .message = message,
        .hint = hint,
    };
    vec_push(&g->conflicts, gen_diag_copy(&d));
    free(message);
    free(hint);
}

static bool prefers(const struct gen_unit *u, const char *name)
{
    for (size_t i = 0; i < u->prefer.n; i++) {
        if (strcmp(u->prefer.p[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/// What an item adds to the mark of its kind when another owns the plain name.
static uint64_t alias_mark(const struct gen_item *it)
{
    return gen__list_events[it->kind] != NULL ? it->mark * 3 + it->alias_hash : 0;
}

/// Who owns the plain name: the first in load order, unless a later unit prefers it.
static void index_item(struct gen *g, struct gen_item *it)
{
    uint64_t *mark = &g->marks.of[it->kind]; // a sum: order does not matter
    if (it->is_builtin && it->naming != GEN_NAME_OVERRIDE) {
        note_conflict(g, NULL, it);
        return;
    }
    if (it->naming == GEN_NAME_LONG) {
        *mark += alias_mark(it);
    } else {
        void **at = gen__index_at(&g->by_name, it->name_hash, it->name);
        struct gen_item *first = *at;
        bool wins =
            first == NULL || (prefers(it->unit, it->name) && !prefers(first->unit, it->name));
        *mark += wins ? it->mark : alias_mark(it);
        if (wins) {
            *mark += first != NULL ? alias_mark(first) - first->mark : 0;
            *at = it;
        }
        if (first != NULL) {
            note_conflict(g, wins ? it : first, wins ? first : it);
        }
    }
    void **alias = gen__index_at(&g->by_name, it->alias_hash, it->alias);
    if (*alias == NULL) {
        *alias = it;
    }
}

// ---- hooks --------------------------------------------------------------------------------

static void keeper_pin(void *arg)
{
    gen_pin(arg);
}

static void keeper_unpin(void *arg)
{
    gen_unpin(arg);
}

static void note_hook(const struct hook *h, enum gen_code code, const struct hook_run *run)
{
    char *message = xasprintf("hook '%s': %s", h->point, run->fault.msg);
    struct gen_unit *u = h->terms.owner;
    struct gen_diag d = {
        .code = code,
        .path = run->fault.path[0] != '\0' ? run->fault.path : u->path,
        .line = run->fault.line,
        .message = message,
        .hook = h->point,
        .traceback = run->fault.traceback,
    };
    gen_unit_fault(u, &d);
    free(message);
}

static void on_fault(void *arg, struct hook *h, enum hook_answer how, const struct hook_run *run,
                     bool switched_off)
{
    (void)arg;
    note_hook(h,
              how == HOOK_TIMEOUT ? DIAG_HOOK_TIMEOUT
              : how == HOOK_STALE ? DIAG_STALE_HANDLE
                                  : DIAG_HOOK_FAILED,
              run);
    if (switched_off) {
        note_hook(h, DIAG_HOOK_DISABLED, run);
    }
}

static struct hook_set *make_hooks(struct gen *g, const struct hook_place *places, size_t n)
{
    const struct hook_keeper keeper = {
        .pin = keeper_pin, .unpin = keeper_unpin, .fault = on_fault, .arg = g};
    return hook_set_new(places, n, &keeper);
}

// ---- inside gen/ --------------------------------------------------------------------------

struct gen *gen__new(struct gen_engine *e, uint64_t number, struct gen_unit *const *units, size_t n)
{
    struct gen *g = xmalloc(sizeof *g);
    bool sorted = true; // mostly: those of the last generation, one of them changed
    size_t names = 0;
    vec(struct hook_place) places = {0};
    *g = (struct gen){.engine = e, .number = number, .pins = 1};
    vec_reserve(&g->units, n);
    for (size_t i = 0; i < n; i++) {
        vec_push(&g->units, gen__unit_ref(units[i]));
        sorted = sorted && (i == 0 || by_load_order(&units[i - 1], &units[i]) < 0);
    }
    if (!sorted) {
        qsort(g->units.p, n, sizeof *g->units.p, by_load_order);
    }
    vec_foreach (u, &g->units) {
        vec_foreach (it, &(*u)->items) {
            vec_push(&g->items, gen__item_ref(*it));
            names += conflict_codes[(*it)->kind] != DIAG_NONE ? 2 : 0; // with the alias
        }
    }
    gen__index_init(&g->by_unit, n, &(struct gen__index){0});
    gen__index_init(&g->by_name, names, &e->spare);
    for (size_t rank = 0; rank < n; rank++) {
        struct gen_unit *u = g->units.p[rank];
        *gen__index_at(&g->by_unit, u->name_hash, u->name) = u;
        vec_foreach (it, &u->items) {
            if (conflict_codes[(*it)->kind] != DIAG_NONE) {
                index_item(g, *it);
            }
            if ((*it)->hook != NULL) {
                vec_push(&places, ((struct hook_place){(*it)->hook, rank}));
            }
        }
    }
    g->hooks = make_hooks(g, places.p, places.n);
    vec_fini(&places);
    e->alive++;
    return g;
}

/// In the next turn of the loop, when no code runs inside it.
static void free_later(void *arg)
{
    struct gen *g = arg;
    struct gen_engine *e = g->engine;
    hook_set_free(g->hooks);
    gen__index_fini(&e->spare);
    e->spare = g->by_name;
    gen__index_fini(&g->by_unit);
    vec_fini_each(&g->conflicts, gen__diag_free);
    vec_fini_each(&g->items, gen__item_unref);
    vec_fini_each(&g->units, gen__unit_unref);
    free(g);
    e->alive--;
    gen__maybe_free(e);
}

// ---- public -------------------------------------------------------------------------------

uint64_t gen_number(const struct gen *g)
{
    return g->number;
}

struct gen *gen_pin(struct gen *g)
{
    assert(g->pins != 0);
    g->pins++;
    return g;
}

void gen_unpin(struct gen *g)
{
    if (g == NULL) {
        return;
    }
    assert(g->pins != 0);
    if (--g->pins == 0) {
        loop_defer(g->engine->loop, free_later, g);
    }
}

size_t gen_count(const struct gen *g)
{
    return g->units.n;
}

struct gen_unit *gen_at(const struct gen *g, size_t i)
{
    return i < g->units.n ? g->units.p[i] : NULL;
}

struct gen_walk gen_walk(const struct gen *g, enum gen_kind kind)
{
    return g != NULL ? gen_walk_units(g->units.p, g->units.n, kind) : (struct gen_walk){0};
}

struct gen_walk gen_walk_units(struct gen_unit *const *units, size_t n, enum gen_kind kind)
{
    return (struct gen_walk){.units = units, .n_units = n, .kind = kind};
}

struct gen_item *gen_walk_next(struct gen_walk *w)
{
    for (; w->unit < w->n_units; w->unit++, w->item = 0) {
        const struct gen_unit *u = w->units[w->unit];
        while (w->item < u->items.n) {
            struct gen_item *it = u->items.p[w->item++];
            if (it->kind == w->kind && !gen_item_is_off(it)) {
                return it;
            }
        }
    }
    return NULL;
}

struct gen_unit *gen_unit_find(const struct gen *g, struct str name)
{
    return gen__index_get(&g->by_unit, 0, name);
}

const struct hook_set *gen_hooks(const struct gen *g)
{
    return g->hooks;
}

struct hook_set *gen_hooks_of(struct gen *g, const struct str *units, size_t n)
{
    vec(struct hook_place) places = {0};
    for (size_t i = 0; i < n; i++) {
        const struct gen_unit *u = gen_unit_find(g, units[i]);
        vec_foreach (it, &g->items) {
            if (u != NULL && (*it)->unit == u && (*it)->hook != NULL) {
                vec_push(&places, ((struct hook_place){(*it)->hook, i}));
            }
        }
    }
    struct hook_set *s = make_hooks(g, places.p, places.n);
    vec_fini(&places);
    return s;
}

struct gen_item *gen_item_find(const struct gen *g, enum gen_kind kind, struct str name)
{
    struct gen_item *it = gen__index_get(&g->by_name, (int)kind, name);
    return it != NULL && !it->off ? it : NULL;
}

bool gen_item_is_plain(const struct gen *g, const struct gen_item *it)
{
    return gen_item_find(g, it->kind, str_of(it->name)) == it;
}
