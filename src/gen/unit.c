// Units and what they contribute.
//
//     staging ── committed ──> current ── replaced or removed ──> draining ── last generation freed
//        │ registrations are         │ registrations are                │ registrations are   │
//        │ recorded                  │ a new generation                 │ refused             └ release()
//        └ discarded: release()
//
// A unit owns its items; each generation that shows an item has a reference on it too, so that taking
// one back (gen_item_off) gives its memory back as soon as the generations from before are gone, also
// for a unit that registers and takes back forever.
//
// Invariants:
//   - an item's unit outlives it: every generation that holds an item holds its unit.
//   - an item is `started` exactly while it is part of the current set, and at most once in its life.

#include <assert.h>

#include "gen/gen_int.h"

enum { NOTES_MAX = 32 };

static const struct gen_item_ops no_ops;

// ---- items --------------------------------------------------------------------------------

static void item_start(struct gen_item *it)
{
    assert(!it->started);
    it->started = true;
    if (it->ops->start != NULL) {
        it->ops->start(it->data);
    }
}

static void item_stop(struct gen_item *it)
{
    if (it->started && it->ops->stop != NULL) {
        it->ops->stop(it->data);
    }
    it->started = false;
}

static int check_open(const struct gen_unit *u, struct err *e)
{
    if (u->life == GEN_DRAINING) {
        return err_set(e, ERR_CONFLICT, "stale handle: this version of '%s' has been replaced",
                       u->name);
    }
    return 0;
}

static struct gen_item *item_new(struct gen_unit *u, enum gen_kind kind, struct str name,
                                 struct str about)
{
    struct gen_item *it = xmalloc(sizeof *it);
    *it = (struct gen_item){.unit = u, .kind = kind, .ops = &no_ops, .refs = 1};
    it->id = u->engine->order++;
    it->name = str_dup(name);
    it->alias = xasprintf("%s:%s", u->name, it->name);
    it->about = str_dup(about);
    it->name_hash = gen__hash((int)kind, name);
    it->alias_hash = gen__hash((int)kind, str_of(it->alias));
    if (gen__list_events[kind] != NULL) {
        it->mark = map_hash(name) ^ (map_hash(about) << 1);
    }
    size_t builtins = kind == GEN_TOOL ? str_count(u->engine->builtins) : 0;
    it->is_builtin = str_lookup(name, u->engine->builtins, builtins) >= 0;
    return it;
}

static void unit_take(struct gen_unit *u, struct gen_item *it)
{
    vec_push(&u->items, it);
    if (u->life == GEN_CURRENT) {
        item_start(it);
        gen__amend(u->engine);
    }
}

/// Take an item out of its unit for good.
static void item_retire(struct gen_item *it)
{
    struct gen_unit *u = it->unit;
    it->off = true;
    if (it->hook != NULL) {
        hook_off(it->hook);
    }
    item_stop(it);
    size_t i = 0;
    while (i < u->items.n && u->items.p[i] != it) {
        i++;
    }
    vec_remove(&u->items, i); // asserts that it is there
    if (u->life == GEN_CURRENT) {
        gen__amend(u->engine);
    }
    gen__item_unref(it);
}

// ---- inside gen/ --------------------------------------------------------------------------

struct gen_item *gen__item_ref(struct gen_item *it)
{
    it->refs++;
    return it;
}

void gen__item_unref(struct gen_item *it)
{
    assert(it->refs != 0);
    if (--it->refs != 0) {
        return;
    }
    assert(!it->started);
    if (it->ops->release != NULL) {
        it->ops->release(it->data);
    }
    hook_unref(it->hook);
    free(it->name);
    free(it->alias);
    free(it->about);
    free(it);
}

struct gen_unit *gen__unit_new(struct gen_source *owner, const struct gen_unit_spec *spec)
{
    struct gen_unit *u = xmalloc(sizeof *u);
    *u = (struct gen_unit){
        .name = xstrdup(spec->name),
        .path = xstrdup(spec->path != NULL ? spec->path : ""),
        .layer = xstrdup(spec->layer != NULL ? spec->layer : ""),
        .host = xstrdup(spec->host != NULL ? spec->host : ""),
        .origin = xstrdup(spec->origin != NULL ? spec->origin : ""),
        .hash = xstrdup(spec->hash != NULL ? spec->hash : ""),
        .order = spec->order,
        .data = spec->data,
        .life = GEN_STAGING,
        .engine = owner->engine,
        .owner = owner,
        .refs = 1,
        .name_hash = gen__hash(0, str_of(spec->name)),
    };
    for (size_t i = 0; i < spec->n_prefer; i++) {
        vec_push(&u->prefer, str_dup(spec->prefer[i]));
    }
    return u;
}

struct gen_unit *gen__unit_ref(struct gen_unit *u)
{
    u->refs++;
    return u;
}

void gen__unit_unref(struct gen_unit *u)
{
    assert(u->refs != 0);
    if (--u->refs != 0) {
        return;
    }
    vec_fini_each(&u->items, gen__item_unref);
    if (u->owner->ops->release != NULL) {
        u->owner->ops->release(u->owner->arg, u);
    }
    vec_fini_each(&u->prefer, free);
    vec_fini_each(&u->diags, gen__diag_free);
    free(u->name);
    free(u->path);
    free(u->layer);
    free(u->host);
    free(u->origin);
    free(u->hash);
    free(u);
}

void gen__unit_start(struct gen_unit *u)
{
    assert(u->life == GEN_STAGING);
    u->life = GEN_CURRENT;
    for (size_t i = 0; i < u->items.n; i++) { // by index: a start may register more
        if (!u->items.p[i]->started) {
            item_start(u->items.p[i]);
        }
    }
}

void gen__unit_stop(struct gen_unit *u)
{
    assert(u->life == GEN_CURRENT);
    u->life = GEN_DRAINING; // first: what a stop() registers is refused
    vec_foreach (it, &u->items) {
        item_stop(*it);
    }
}

bool gen_unit_note(struct gen_unit *u, const struct gen_diag *d)
{
    bool known = false;
    for (size_t i = 0; i < u->diags.n; i++) {
        struct gen_diag have = u->diags.p[i];
        // what fails as it runs may have other words each time
        bool same = d->hook != NULL || d->code == DIAG_HOOK_FAILED ||
                    str_eq(str_of(have.message), str_of(d->message));
        if (same && have.code == d->code && have.line == d->line &&
            str_eq(str_of(have.path), str_of(d->path)) &&
            str_eq(str_of(have.hook), str_of(d->hook))) { // the same place: the newer one counts
            known = gen_diag_equal(&have, d);
            vec_remove(&u->diags, i);
            gen_diag_fini(&have);
            break;
        }
    }
    if (u->diags.n == NOTES_MAX) {
        gen_diag_fini(&u->diags.p[0]);
        vec_remove(&u->diags, 0);
    }
    vec_push(&u->diags, gen_diag_copy(d));
    return !known;
}

bool gen_unit_fault(struct gen_unit *u, const struct gen_diag *d)
{
    bool is_new = gen_unit_note(u, d);
    if (is_new) {
        gen__event_error(u->engine, u->name, d);
    }
    return is_new;
}

const struct gen_diag *gen_unit_diags(const struct gen_unit *u, size_t *n)
{
    *n = u->diags.n;
    return u->diags.p;
}

// ---- statistics ---------------------------------------------------------------------------

/// All handlers of `u` at one point, the first of them at `from`, together; nothing when it has none.
static void write_point(const struct gen_unit *u, const char *point, size_t from, struct jw *w)
{
    struct hook_stats sum = {0};
    bool any = false;
    for (size_t i = from; i < u->items.n; i++) {
        const struct hook *h = u->items.p[i]->hook;
        if (h != NULL && strcmp(h->point, point) == 0) {
            hook_stats_merge(&sum, &h->stats);
            any = true;
        }
    }
    if (any) {
        jw_key(w, point);
        hook_stats_write(&sum, w);
    }
}

// ---- public -------------------------------------------------------------------------------

const char *gen_kind_name(enum gen_kind kind)
{
    static const char *const names[GEN__KINDS] = {
#define KIND(id, name, code, event) [GEN_##id] = name,
#include "gen/kinds.def"
#undef KIND
    };
    return names[kind];
}

const char *gen_state_name(enum gen_state state)
{
    static const char *const names[] = {
#define X(id, name) [GEN_##id] = name,
        GEN_STATES(X)
#undef X
    };
    return names[state];
}

int gen_unit_add(struct gen_unit *u, const struct gen_item_spec *spec, struct gen_item **out,
                 struct err *e)
{
    assert(spec->kind != GEN_HOOK);
    int rc = check_open(u, e);
    if (rc < 0) {
        return rc;
    }
    struct gen_item *it = item_new(u, spec->kind, spec->name, spec->about);
    it->ops = spec->ops != NULL ? spec->ops : &no_ops;
    it->face = spec->face;
    it->naming = spec->naming;
    it->data = spec->data;
    if (out != NULL) {
        *out = it; // before it starts: what starts may look at it
    }
    unit_take(u, it);
    return 0;
}

int gen_unit_hook(struct gen_unit *u, const struct hook_spec *spec, struct gen_item **out,
                  struct err *e)
{
    struct hook_spec mine = *spec;
    struct hook *h;
    int rc = check_open(u, e);
    if (rc < 0) {
        return rc;
    }
    mine.terms.owner = u;
    mine.terms.order = u->engine->order++;
    rc = hook_new(&h, &mine, e);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < u->items.n && h->name != NULL; i++) {
        const struct hook *old = u->items.p[i]->hook;
        if (old != NULL && old->name != NULL && old->kind == h->kind &&
            strcmp(old->name, h->name) == 0 && strcmp(old->point, h->point) == 0) {
            item_retire(u->items.p[i]); // it is replaced
            break;
        }
    }
    struct gen_item *it = item_new(u, GEN_HOOK, spec->name, STR_NULL);
    it->hook = h;
    if (out != NULL) {
        *out = it;
    }
    unit_take(u, it);
    return 0;
}

int gen_item_off(struct gen_item *it, struct err *e)
{
    int rc = check_open(it->unit, e);
    if (rc < 0) {
        return rc;
    }
    item_retire(it);
    return 0;
}

int gen_unit_off(struct gen_unit *u, uint64_t id, struct err *e)
{
    vec_foreach (it, &u->items) {
        if ((*it)->id == id) {
            return gen_item_off(*it, e);
        }
    }
    return err_set(e, ERR_NOT_FOUND, "'%s' has no such registration any more", u->name);
}

uint64_t gen_item_id(const struct gen_item *it)
{
    return it->id;
}

struct gen_item *gen_item_of(const struct hook *h)
{
    struct gen_unit *u = h->terms.owner;
    vec_foreach (it, &u->items) {
        if ((*it)->hook == h) {
            return *it;
        }
    }
    return NULL;
}

enum gen_kind gen_item_kind(const struct gen_item *it)
{
    return it->kind;
}

const char *gen_item_name(const struct gen_item *it)
{
    return it->name;
}

const char *gen_item_about(const struct gen_item *it)
{
    return it->about;
}

const struct json *gen_item_read_about(const struct gen_item *it, struct arena *a)
{
    static const struct json nothing = {.type = JSON_OBJ};
    struct json *about;
    struct str text = arena_str(a, str_of(it->about));
    return json_parse(&about, a, text, NULL, NULL) == 0 ? about : &nothing;
}

const void *gen_item_face(const struct gen_item *it)
{
    return it->face;
}

void *gen_item_data(const struct gen_item *it)
{
    return it->data;
}

struct hook *gen_item_hook(const struct gen_item *it)
{
    return it->hook;
}

struct gen_unit *gen_item_unit(const struct gen_item *it)
{
    return it->unit;
}

bool gen_item_is_off(const struct gen_item *it)
{
    return it->off;
}

size_t gen_unit_count(const struct gen_unit *u)
{
    return u->items.n;
}

struct gen_item *gen_unit_at(const struct gen_unit *u, size_t i)
{
    return i < u->items.n ? u->items.p[i] : NULL;
}

void gen_unit_write_stats(const struct gen_unit *u, struct jw *w)
{
    jw_obj(w);
    for (size_t i = 0; i < POINT__COUNT; i++) {
        write_point(u, hook_points[i].name, 0, w);
    }
    for (size_t i = 0; i < u->items.n; i++) {
        const struct hook *h = u->items.p[i]->hook, *before = NULL;
        for (size_t k = 0; k < i && h != NULL && before == NULL; k++) {
            const struct hook *other = u->items.p[k]->hook;
            before = other != NULL && strcmp(other->point, h->point) == 0 ? other : NULL;
        }
        if (h != NULL && before == NULL && hook_point_find(str_of(h->point)) == NULL) {
            write_point(u, h->point, i, w);
        }
    }
    jw_end_obj(w);
}
