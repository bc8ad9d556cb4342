// What sources say while they stage, written down and not yet true.
//
// A stage holds the changes of versions, and a copy of the problems of names ("troubles") as they
// will be afterwards. A commit takes both over; a dry run drops them. A source may say several things
// about one name: the last one counts.
//
// Invariants:
//   - a name is in `changes` at most once, and then it is in `troubles` only if that came from
//     another source.
//   - every unit that was begun is in `units` with a reference of the stage; those in `changes` are
//     the ones that were put.

#include <assert.h>

#include "gen/gen_int.h"

// ---- troubles -----------------------------------------------------------------------------

static void need_free(struct gen_report_need n)
{
    free((void *)(uintptr_t)n.plugin);
    free((void *)(uintptr_t)n.reason);
}

static void trouble_free(struct gen_trouble t)
{
    vec_fini_each(&t.diags, gen__diag_free);
    vec_fini_each(&t.needs, need_free);
    free(t.name);
}

struct gen_trouble *gen__trouble_find(gen__troubles *list, const char *name)
{
    vec_foreach (t, list) {
        if (strcmp(t->name, name) == 0) {
            return t;
        }
    }
    return NULL;
}

static void trouble_remove(gen__troubles *list, const char *name)
{
    struct gen_trouble *t = gen__trouble_find(list, name);
    if (t != NULL) {
        trouble_free(*t);
        vec_remove(list, t - list->p);
    }
}

void gen__troubles_fini(gen__troubles *list)
{
    vec_fini_each(list, trouble_free);
}

// ---- changes ------------------------------------------------------------------------------

static void change_forget(struct gen_stage *s, const char *name, bool only_put)
{
    for (size_t i = 0; i < s->changes.n; i++) {
        const struct gen_change *c = &s->changes.p[i];
        const char *own = c->new != NULL ? c->new->name : c->old->name;
        if (strcmp(own, name) == 0 && (c->new != NULL || !only_put)) {
            vec_remove(&s->changes, i);
            return;
        }
    }
}

static struct gen_unit *find_serving(const struct gen_stage *s, const char *name)
{
    return gen_unit_find(s->engine->current, str_of(name));
}

/// The source that owns `name`, in the set or by what was staged already; NULL: none.
static const struct gen_source *name_owner(struct gen_stage *s, const char *name)
{
    vec_foreach (c, &s->changes) {
        if (c->new != NULL && strcmp(c->new->name, name) == 0) {
            return c->new->owner;
        }
    }
    const struct gen_unit *serving = find_serving(s, name);
    return serving != NULL ? serving->owner : NULL;
}

// ---- inside gen/ --------------------------------------------------------------------------

void gen__stage_init(struct gen_stage *s, struct gen_engine *e, const struct gen_request *req)
{
    *s = (struct gen_stage){.engine = e, .request = req};
    vec_foreach (t, &e->troubles) {
        struct gen_trouble copy = {
            .name = xstrdup(t->name), .source = t->source, .state = t->state};
        vec_foreach (d, &t->diags) {
            vec_push(&copy.diags, gen_diag_copy(d));
        }
        vec_foreach (n, &t->needs) {
            assert(n->plugin == NULL);
            vec_push(&copy.needs,
                     ((struct gen_report_need){.kind = n->kind, .reason = xstrdup(n->reason)}));
        }
        vec_push(&s->troubles, copy);
    }
}

void gen__stage_fini(struct gen_stage *s)
{
    vec_fini_each(&s->units, gen__unit_unref);
    vec_fini_each(&s->needs, need_free);
    vec_fini(&s->changes);
    gen__troubles_fini(&s->troubles);
}

void gen__stage_sweep(struct gen_stage *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->units.n; i++) {
        struct gen_unit *u = s->units.p[i];
        bool put = false;
        vec_foreach (c, &s->changes) {
            put = put || c->new == u;
        }
        if (put) {
            s->units.p[kept++] = u;
        } else {
            gen__unit_unref(u);
        }
    }
    s->units.n = kept;
}

// ---- public -------------------------------------------------------------------------------

const struct gen_request *gen_stage_request(struct gen_stage *s)
{
    return s->request;
}

struct gen_unit *gen_stage_unit(struct gen_stage *s, const struct gen_unit_spec *spec)
{
    struct gen_unit *u = gen__unit_new(s->source, spec);
    vec_push(&s->units, u);
    return u;
}

bool gen_stage_put(struct gen_stage *s, struct gen_unit *u)
{
    const struct gen_source *owner = name_owner(s, u->name);
    if (owner != NULL && owner != s->source) {
        char *message = xasprintf("'%s' is already loaded from %s", u->name, owner->ops->name);
        struct gen_diag d = {.code = DIAG_NAME_DUPLICATE, .path = u->path, .message = message};
        gen_stage_refuse(s, u->name, GEN_FAILED, &d);
        free(message);
        return false;
    }
    change_forget(s, u->name, false);
    trouble_remove(&s->troubles, u->name);
    struct gen_change c = {.old = find_serving(s, u->name), .new = u, .why = GEN_RELOAD};
    vec_push(&s->changes, c);
    return true;
}

void gen_stage_remove(struct gen_stage *s, const char *name, enum gen_reason why)
{
    struct gen_unit *serving = find_serving(s, name);
    change_forget(s, name, false);
    trouble_remove(&s->troubles, name);
    if (serving != NULL) {
        vec_push(&s->changes, ((struct gen_change){.old = serving, .why = why}));
    }
}

void gen_stage_refuse(struct gen_stage *s, const char *name, enum gen_state state,
                      const struct gen_diag *d)
{
    const struct gen_source *owner = name_owner(s, name);
    if (owner == NULL || owner == s->source) {
        change_forget(s, name, true); // what another source put under this name stays
    }
    gen_stage_stand(s, name, state, d);
}

void gen_stage_stand(struct gen_stage *s, const char *name, enum gen_state state,
                     const struct gen_diag *d)
{
    trouble_remove(&s->troubles, name);
    struct gen_trouble t = {.name = xstrdup(name), .source = s->source, .state = state};
    if (d != NULL) {
        vec_push(&t.diags, gen_diag_copy(d));
    }
    vec_push(&s->troubles, t);
}

void gen_stage_reorder(struct gen_unit *u, int order)
{
    u->order = order;
}

void gen_stage_note(struct gen_stage *s, const char *name, const struct gen_diag *d)
{
    struct gen_trouble *t = gen__trouble_find(&s->troubles, name);
    assert(t != NULL);
    vec_push(&t->diags, gen_diag_copy(d));
}

void gen_stage_clear(struct gen_stage *s, const char *name)
{
    trouble_remove(&s->troubles, name);
}

void gen_stage_need(struct gen_stage *s, const char *name, enum gen_need kind, const char *reason)
{
    struct gen_trouble *t = gen__trouble_find(&s->troubles, name);
    struct gen_report_need n = {.kind = kind, .reason = xstrdup(reason)};
    if (t != NULL) {
        vec_push(&t->needs, n);
    } else {
        n.plugin = xstrdup(name);
        vec_push(&s->needs, n);
    }
}
