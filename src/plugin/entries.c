// Of all places the set of plugins to be.
//
//     a view: what one kind of session sees          two projects A, B that both have `x`
//
//     repo-profile of A  ┐                           view of A:  x of A     over the user's
//     repo of A          ┤ later wins by name        view of B:  x of B     over the user's
//     config             ┤                           the user's: x of the user
//     user-profile       ┤
//     user               ┤                           units:      x (A's)  x@b  x@user
//     shipped            ┘
//
// Every view has a winner for a name, and every winner is an entry, since sessions of all views live in
// one hub. A plugin of the user's is in many views but is one entry.
//
// Load order is that of `rank`: lines of the configuration, then the user's layers from the lowest on,
// then project by project in the order in which they were opened.
//
// Rules:
//   - In one layer the first in load order has the name; the others are listed, with NAME_DUPLICATE.
//   - A configured place with nothing in it keeps the name of its path, and keeps it from lower layers
//     too: declared but missing is an error and never a fallback.
//   - The same path said twice in different layers (a line for a plugin that is discovered as well) is
//     one plugin, and shadows nothing.
//   - A choice is looked for under the unit's name, then under the plugin's; `required` wins over it.
//
// Plain loops over all pairs are enough: there are hundreds of places, and this runs only when something changed.

#include "plugin/entries.h"

#include <assert.h>

#include "base/path.h"
#include "plugin/manifest.h"
#include "plugin/shipped.h"
#include "proto/ops.h"

/// A place and the name that it stands for.
struct named {
    const struct plugin_place *place;
    const char *name;
    int rank; // in load order
};

struct making {
    struct plugin_entries *out;
    const struct json *choices;
    vec(struct named) sorted;   // in load order
    vec(const char *) projects; // roots, in the order of their places
};

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/// Its name; for a place with nothing in it the name that code gives it, else the one of its path, without a file's ending.
static const char *name_of(struct making *m, const struct plugin_place *p)
{
    struct str base = path_base(str_of(p->path));
    if (p->name != NULL || p->called != NULL) {
        return p->name != NULL ? p->name : p->called;
    }
    if (plugin_lang_of(base) != LANG_NONE) {
        base.n = (size_t)((const char *)memrchr(base.p, '.', base.n) - base.p);
    }
    return arena_strdup(&m->out->arena, base);
}

// ---- load order -----------------------------------------------------------------------------

static int rank(const struct making *m, const struct plugin_place *p)
{
    int at = 0;
    assert(m->projects.n != 0 || p->project == NULL);
    if (p->project == NULL) {
        return p->layer == LAYER_CONFIG ? -1 : (int)p->layer;
    }
    while (!same(m->projects.p[at], p->project)) {
        at++;
    }
    return LAYER__COUNT * (1 + at) + (int)p->layer;
}

/// In load order: by rank, then configured entries before those found, also in a project's layer.
static void sort_places(struct making *m, const struct plugin_places *p)
{
    for (size_t i = 0; i < p->list.n; i++) {
        const char *project = p->list.p[i].project;
        bool known = project == NULL;
        vec_foreach (it, &m->projects) {
            known |= same(*it, project);
        }
        if (!known) {
            vec_push(&m->projects, project);
        }
    }
    for (size_t i = 0; i < p->list.n; i++) { // by insertion: they come nearly sorted
        const struct plugin_place *place = &p->list.p[i];
        struct named n = {.place = place,
                          .name = name_of(m, place),
                          .rank = 2 * rank(m, place) + (place->said_path == NULL)};
        size_t at = m->sorted.n;
        vec_push(&m->sorted, n);
        for (; at > 0; at--) {
            const struct named *before = &m->sorted.p[at - 1];
            if (before->rank < n.rank ||
                (before->rank == n.rank && before->place->order <= place->order)) {
                break;
            }
            m->sorted.p[at] = *before;
        }
        m->sorted.p[at] = n;
    }
}

// ---- who wins -------------------------------------------------------------------------------

/// The earlier layers that `e` replaces. An untrusted plugin replaces nothing.
static void find_shadows(struct making *m, struct plugin_entry *e)
{
    if (e->place->untrusted) {
        return;
    }
    vec_foreach (it, &m->sorted) {
        const struct plugin_place *low = it->place;
        bool visible = low->project == NULL || same(low->project, e->place->project);
        if (visible && low->layer < e->place->layer && same(it->name, e->name) &&
            !same(low->path, e->place->path)) {
            vec_push(&e->shadows, low);
        }
    }
}

// ---- faults ---------------------------------------------------------------------------------

static struct gen_diag *new_fault(struct making *m, const struct plugin_place *p,
                                  enum gen_code code, const char *message, const char *hint)
{
    struct gen_diag *d = arena_calloc(&m->out->arena, 1, sizeof *d);
    bool said = p->said_path != NULL && code != DIAG_NAME_INVALID;
    *d = (struct gen_diag){
        .code = code,
        .source = p->said_path != NULL ? "config" : NULL,
        .path = arena_strdup(&m->out->arena, str_of(said ? p->said_path : p->path)),
        .line = said ? p->said_line : 0,
        .message = message,
        .hint = hint,
    };
    return d;
}

/// "'/a/x'", with the line that names it if there is one.
static const char *spoken(struct making *m, const struct plugin_place *p)
{
    if (p->said_path == NULL) {
        return arena_printf(&m->out->arena, "'%s'", p->path);
    }
    return arena_printf(&m->out->arena, "'%s' (%s:%d)", p->path, p->said_path, p->said_line);
}

/// `first` is the place that has the name in this layer, perhaps that of `n` itself.
static struct gen_diag *find_fault(struct making *m, const struct named *n,
                                   const struct plugin_place *first)
{
    struct arena *a = &m->out->arena;
    const struct plugin_place *p = n->place;
    if (first != p) {
        return new_fault(m, p, DIAG_NAME_DUPLICATE,
                         arena_printf(a, "plugin '%s' is there twice: %s loads, %s does not",
                                      n->name, spoken(m, first), spoken(m, p)),
                         "rename one of them, or take it away");
    }
    if (p->path[0] == '\0') {
        struct buf names = {.max = SIZE_MAX};
        shipped_add_names(&names);
        const char *hint = arena_printf(a, "these come with the program: %s", buf_z(&names));
        buf_fini(&names);
        return new_fault(m, p, DIAG_ENTRY_MISSING,
                         arena_printf(a, "there is no shipped plugin '%s'", n->name), hint);
    }
    if (p->name == NULL) {
        return new_fault(m, p, DIAG_ENTRY_MISSING,
                         arena_printf(a, "there is nothing at '%s'", p->path), NULL);
    }
    if (!plugin_name_valid(str_of(n->name))) {
        return new_fault(m, p, DIAG_NAME_INVALID,
                         arena_printf(a, "'%s' cannot be the name of a plugin", n->name),
                         "a name is a-z, then a-z, 0-9, _ and -, 64 at most");
    }
    if (op_has_path("/plugin/", str_of(n->name))) {
        return new_fault(m, p, DIAG_NAME_INVALID, arena_printf(a, "'%s' is reserved", n->name),
                         "give it another name: /plugin/NAME would not reach it");
    }
    return NULL;
}

// ---- units ----------------------------------------------------------------------------------

/// Who has the plain name: the first project's that is trusted, else the user's, else what is there.
static const struct plugin_entry *owner_of(const struct making *m, const char *name)
{
    const struct plugin_entry *users = NULL, *any = NULL;
    vec_foreach (it, &m->out->list) {
        if (entry_is_duplicate(it) || !same(it->name, name)) {
            continue;
        }
        if (it->place->project != NULL && !it->place->untrusted) {
            return it;
        }
        users = it->place->project == NULL ? it : users;
        any = any == NULL ? it : any;
    }
    return users != NULL ? users : any;
}

/// The owner of a name has it plain; the others are `name@slug`, with a number after it while that is taken.
static void name_units(struct making *m)
{
    struct arena *a = &m->out->arena;
    vec_foreach (e, &m->out->list) {
        if (owner_of(m, e->name) == e) {
            e->unit = arena_strdup(a, str_of(e->name));
        }
    }
    vec_foreach (e, &m->out->list) {
        const char *slug = e->place->slug != NULL ? e->place->slug : "user";
        const char *suffix = entry_is_duplicate(e) ? "duplicate" : slug;
        char *unit = e->unit == NULL ? arena_printf(a, "%s@%s", e->name, suffix) : NULL;
        for (size_t i = 0, number = 2; unit != NULL && i < m->out->list.n; i++) {
            if (same(m->out->list.p[i].unit, unit)) {
                unit = arena_printf(a, "%s@%s-%zu", e->name, suffix, number++);
                i = SIZE_MAX; // from the beginning
            }
        }
        e->unit = unit != NULL ? unit : e->unit;
        if (e->fault != NULL) {
            e->fault->plugin = e->unit;
        }
    }
}

// ---- enabled --------------------------------------------------------------------------------

static const struct json *chosen(struct making *m, const char *name)
{
    const char *key = arena_printf(&m->out->arena, "plugins.%s.enabled", name);
    const struct json *v = json_get(m->choices, key);
    return v != NULL && v->type == JSON_BOOL ? v : NULL;
}

// ---- public ---------------------------------------------------------------------------------

const char *plugin_layer_name(enum plugin_layer layer)
{
    static const char *const names[LAYER__COUNT] = {
        [LAYER_SHIPPED] = "shipped", [LAYER_USER] = "user", [LAYER_USER_PROFILE] = "user-profile",
        [LAYER_CONFIG] = "config",   [LAYER_REPO] = "repo", [LAYER_REPO_PROFILE] = "repo-profile",
    };
    return names[layer];
}

void entries_make(struct plugin_entries *out, const struct plugin_places *p,
                  const struct json *choices)
{
    struct making m = {.out = out, .choices = choices};
    *out = (struct plugin_entries){0};
    sort_places(&m, p);
    vec_foreach (it, &m.sorted) {
        struct plugin_entry e = {.place = it->place, .name = it->name};
        const struct plugin_place *first = NULL; // of its layer
        bool replaced = false;                   // by a later layer of the same owner
        vec_foreach (other, &m.sorted) {
            if (same(other->place->project, it->place->project) && same(other->name, it->name)) {
                replaced = replaced || other->place->layer > it->place->layer;
                first =
                    first == NULL && other->place->layer == it->place->layer ? other->place : first;
            }
        }
        if (replaced) {
            continue;
        }
        e.fault = find_fault(&m, it, first);
        if (!entry_is_duplicate(&e)) {
            find_shadows(&m, &e);
        }
        vec_push(&out->list, e);
    }
    name_units(&m);
    vec_foreach (e, &out->list) {
        const struct json *v = chosen(&m, e->unit);
        v = v != NULL ? v : chosen(&m, e->name);
        e->enabled = e->place->required || (v != NULL ? v->b : e->place->enabled);
    }
    vec_fini(&m.sorted);
    vec_fini(&m.projects);
}

void entries_fini(struct plugin_entries *e)
{
    vec_foreach (it, &e->list) {
        vec_fini(&it->shadows);
    }
    vec_fini(&e->list);
    arena_fini(&e->arena);
}
