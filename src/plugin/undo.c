// Going back to what was.
//
//     record of an earlier generation ──> for every unit that differs from it: a hold ──> a run serves it
//
// Undo touches no file of the user: what he has on disk stays, and a hold ends as soon as he changes it
// or forces a reload. Going back is a new generation that remembers where it went to, so that the next
// undo goes further. Generations that changed no plugin, those of registrations among them, are
// stepped over.

#include "plugin/plugins_int.h"

size_t plugins_past_count(const struct plugins *ps)
{
    return ps->past.n;
}

struct plugin_past plugins_past_at(const struct plugins *ps, size_t i)
{
    const struct json *r = ps->past.p[i]->json;
    return (struct plugin_past){
        .generation = past__number(ps->past.p[i], "generation"),
        .at = json_int(json_get(r, "at"), 0),
        .trigger = json_str(json_get(r, "trigger"), ""),
        .added = json_get(r, "added"),
        .changed = json_get(r, "changed"),
        .removed = json_get(r, "removed"),
        .set = json_get(r, "set"),
    };
}

static bool is_version(const struct json *rec, const char *hash, uint64_t mark)
{
    return str_eqz(json_str(json_get(rec, "hash"), ""), hash) &&
           (uint64_t)json_int(json_get(rec, "mark"), 0) == mark;
}

/// Is this version of a record what serves as `p`?
static bool is_serving(const struct plug *p, const struct json *rec)
{
    const struct loaded *v = p != NULL ? p->serving : NULL;
    return v != NULL && is_version(rec, v->content->tree.hash, v->mark);
}

static bool is_current_set(const struct plugins *ps, const struct json *set)
{
    size_t serving = 0;
    for (size_t i = 0; i < ps->plugs.n; i++) {
        const struct plug *p = ps->plugs.p[i];
        serving += p->serving != NULL;
        if (p->serving != NULL && !is_serving(p, json_get(set, p->unit))) {
            return false;
        }
    }
    return set != NULL && set->n == serving;
}

/// The newest record before what the last run stands for whose versions are others than what serves.
static const struct past *find_before(const struct plugins *ps)
{
    uint64_t base = 0;
    for (size_t i = 0; i < ps->past.n; i++) {
        const struct past *r = ps->past.p[i];
        uint64_t n = past__number(r, "generation"), to = past__number(r, "to");
        if (i == 0) {
            base = to != 0 ? to : n;
        } else if (n < base && !is_current_set(ps, json_get(r->json, "set"))) {
            return r;
        }
    }
    return NULL;
}

static const struct past *find_number(const struct plugins *ps, uint64_t number)
{
    for (size_t i = 0; i < ps->past.n; i++) {
        if (past__number(ps->past.p[i], "generation") == number) {
            return ps->past.p[i];
        }
    }
    return NULL;
}

static void hold_all(struct plugins *ps, const struct json *set)
{
    json_foreach_member (m, set) {
        char *unit = str_dup(m->key);
        const struct plug *p = plugins__plug(ps, unit);
        const char *over = look__hash(ps, p);
        bool plain = p != NULL && p->entry != NULL && p->entry->enabled &&
                     is_version(&m->value, over, decide__mark(p->entry->place, unit));
        if (plain) {
            past__release(ps, unit); // what lies there, with its entry, is just that version
        } else if (!is_serving(p, &m->value) || past__hold(ps, unit) != NULL) {
            past__hold_add(ps, m->key, &m->value, over);
        }
        free(unit);
    }
    vec_foreach (p, &ps->plugs) {
        if ((*p)->serving != NULL && json_get(set, (*p)->unit) == NULL) {
            past__hold_add(ps, str_of((*p)->unit), NULL, look__hash(ps, *p));
        }
    }
}

int plugins_undo(struct plugins *ps, uint64_t to, gen_report_cb *cb, void *arg, struct err *e)
{
    const struct past *r = to != 0 ? find_number(ps, to) : find_before(ps);
    if (r == NULL && to != 0) {
        return err_set(e, ERR_NOT_FOUND, "generation %llu is not kept", (unsigned long long)to);
    }
    if (r == NULL) {
        return err_set(e, ERR_CONFLICT, "there is no earlier set of plugins to go back to");
    }
    hold_all(ps, json_get(r->json, "set"));
    ps->undo_to = past__number(r, "generation");
    gen_request(ps->opts.engine, &(struct gen_request){.trigger = "undo", .wait_all = true}, cb,
                arg);
    return 0;
}
