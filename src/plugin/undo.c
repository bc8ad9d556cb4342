// Going back to what was.
//
//     record ──> for every unit that it replaced: a hold of the version before ──> a run serves it
//            └─> every choice that it saw changed: chosen as before
//
// Undo changes no file of the user, and a hold ends as soon as the user changes the file or forces a reload. Going back is a new generation that remembers where it went to, so that the next
// undo goes further. Generations that changed nothing, those of registrations among them, are stepped
// over.
//
// Invariant: between plugins_undo() and apply() the versions of texts are fetched; what is to be done is
// in `going`, since records may go meanwhile.

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
        .trigger = json_get_text(r, "trigger"),
        .added = json_get(r, "added"),
        .changed = json_get(r, "changed"),
        .removed = json_get(r, "removed"),
        .chosen = json_get(r, "chosen"),
    };
}

// ---- what is to be done -------------------------------------------------------------------------

struct going {
    struct plugins *ps;
    struct arena arena;
    struct map was, chosen; // to what it was; JSON null: nothing
    uint64_t to;            // the record whose change, and all later ones, are taken back
    gen_report_cb *cb;
    void *arg;
};

static void going_free(struct going *g)
{
    map_fini(&g->was);
    map_fini(&g->chosen);
    arena_fini(&g->arena);
    free(g);
}

/// As they were before `r`: records are taken newest first.
static void going_take(struct going *g, const struct past *r)
{
    const struct json *was = json_get(r->json, "was"), *chosen = json_get(r->json, "chosen");
    json_foreach_member (m, was) {
        map_set(&g->was, m->key, json_clone(&g->arena, &m->value));
    }
    json_foreach_member (m, chosen) {
        map_set(&g->chosen, m->key, json_clone(&g->arena, &m->value));
    }
    g->to = past__number(r, "id");
}

static bool is_nothing(const struct json *rec)
{
    return rec->type != JSON_OBJ;
}

const struct json *plugins_past_set(const struct plugins *ps, size_t at, struct arena *a)
{
    struct going *g = xcalloc(1, sizeof *g);
    struct json *set = NULL;
    struct buf b = {.max = SIZE_MAX};
    struct str unit;
    void *p;
    for (size_t i = 0; i < at; i++) {
        going_take(g, ps->past.p[i]);
    }
    struct jw w = {.out = &b};
    jw_obj(&w);
    for (size_t i = 0; map_next(&ps->now, &i, &unit, &p);) {
        if (map_get(&g->was, unit) == NULL) {
            jw_key_str(&w, unit);
            jw_raw(&w, str_of(((struct past__now *)p)->text));
        }
    }
    for (size_t i = 0; map_next(&g->was, &i, &unit, &p);) {
        if (!is_nothing(p)) {
            jw_key_str(&w, unit);
            jw_value(&w, p);
        }
    }
    jw_end_obj(&w);
    int rc = json_parse(&set, a, arena_str(a, buf_str(&b)), NULL, NULL);
    buf_fini(&b);
    going_free(g);
    return rc == 0 ? set : NULL;
}

// ---- which records ------------------------------------------------------------------------------

/// The last change that was not taken back; NULL: there is none.
static const struct past *find_last(const struct plugins *ps)
{
    uint64_t before = UINT64_MAX; // what is newer was taken back
    for (size_t i = 0; i < ps->past.n; i++) {
        const struct past *r = ps->past.p[i];
        uint64_t to = past__number(r, "to");
        if (before == UINT64_MAX && to != 0) {
            before = to;
        } else if (past__number(r, "id") < before && past__is_change(r)) {
            return r;
        }
    }
    return NULL;
}

/// Everything after generation `number`; false: it is not kept.
static bool take_after(struct going *g, uint64_t number)
{
    for (size_t i = 0; i < g->ps->past.n; i++) {
        if (past__number(g->ps->past.p[i], "generation") == number) {
            return true;
        }
        going_take(g, g->ps->past.p[i]);
    }
    return false;
}

// ---- doing it -----------------------------------------------------------------------------------

static void hold_plugin(struct plugins *ps, const char *unit, const struct json *rec)
{
    const struct plugin *p = plugins__plug(ps, unit);
    const struct plugin_entry *e = p != NULL ? p->entry : NULL;
    const char *over = look__hash(p);
    bool plain = e != NULL && e->enabled && !is_nothing(rec) &&
                 str_eqz(json_get_text(rec, "hash"), over) &&
                 (uint64_t)json_int(json_get(rec, "mark"), 0) == decide__mark(e->place, unit);
    if (plain) {
        past__release(ps, unit); // what is on disk, with its entry, is just that version
    } else {
        past__hold_add(ps, str_of(unit), is_nothing(rec) ? NULL : rec, over)->over_off =
            e != NULL && !e->place->enabled;
    }
}

static void hold_text(struct plugins *ps, const struct past__joined *j, const char *unit,
                      const struct json *rec, const struct past__fetch *f)
{
    struct str hash = json_get_text(rec, "hash"), bytes = STR_NULL;
    char over[SHA256_HEX];
    j->m->on_disk(j->arg, unit, over);
    if (!is_nothing(rec) && !past__fetch_get(f, hash, &bytes)) {
        return; // it is not kept any more, and the log says so
    }
    if (str_eqz(hash, over)) {
        past__release(ps, unit); // what is there, or that nothing is, is just what it was
    } else {
        struct hold *h = past__hold_add(ps, str_of(unit), is_nothing(rec) ? NULL : rec, over);
        h->bytes = bytes.p != NULL ? arena_str(&h->arena, bytes) : STR_NULL;
    }
    j->m->held(j->arg, unit);
}

static void on_undone(const struct gen_report *r, void *arg)
{
    struct going *g = arg;
    if (r != NULL && g->ps->undo_to != 0) {
        gen_bump(g->ps->opts.engine, "undo"); // no unit changed: it is written down all the same
    }
    if (g->cb != NULL) {
        g->cb(r, g->arg);
    }
    going_free(g);
}

static void apply(struct plugins *ps, struct past__fetch *f, void *arg)
{
    struct going *g = arg;
    struct str key;
    void *rec;
    if (ps->stopped) {
        on_undone(NULL, g);
        return;
    }
    for (size_t at = 0; map_next(&g->was, &at, &key, &rec);) {
        char *unit = str_dup(key);
        const struct past__joined *j = past__member(ps, unit);
        if (j != NULL) {
            hold_text(ps, j, unit, rec, f);
        } else {
            hold_plugin(ps, unit, rec);
        }
        free(unit);
    }
    ps->undo_to = g->to;
    for (size_t at = 0; map_next(&g->chosen, &at, &key, &rec);) {
        past__choose_again(ps, key, rec);
    }
    if (g->was.n == 0) {
        gen_bump(ps->opts.engine, "undo");
    }
    gen_request(ps->opts.engine, &(struct gen_request){.trigger = "undo", .wait_all = true},
                on_undone, g);
}

int plugins_undo_at(struct plugins *ps, uint64_t to, const char *const *paths, size_t n,
                    gen_report_cb *cb, void *arg, struct err *e)
{
    struct going *g = xcalloc(1, sizeof *g);
    struct str unit;
    void *rec;
    *g = (struct going){.ps = ps, .cb = cb, .arg = arg};
    bool kept = take_after(g, to);
    for (size_t at = 0; map_next(&g->was, &at, &unit, &rec);) {
        struct plugin_row row;
        struct str was = json_get_text(rec, "path");
        const char *now = plugins_find(ps, unit, &row) ? row.path : "";
        bool named = false;
        for (size_t i = 0; i < n; i++) {
            named = named || str_eqz(was, paths[i]) || strcmp(now, paths[i]) == 0;
        }
        if (!named) {
            map_remove(&g->was, unit);
        }
    }
    if (!kept || g->was.n == 0) {
        going_free(g);
        return err_set(e, ERR_NOT_FOUND, "what was before generation %llu is not kept",
                       (unsigned long long)to);
    }
    map_fini(&g->chosen);
    g->to = 0; // a change like others: the next undo takes it back
    past__fetch_run(past__fetch_new(ps), apply, g); // plugins are fetched by the run
    return 0;
}

int plugins_undo(struct plugins *ps, uint64_t to, gen_report_cb *cb, void *arg, struct err *e)
{
    struct going *g = xcalloc(1, sizeof *g);
    const struct past *last = to == 0 ? find_last(ps) : NULL;
    struct str unit;
    void *rec;
    *g = (struct going){.ps = ps, .cb = cb, .arg = arg};
    if (last != NULL) {
        going_take(g, last);
    } else if (to == 0 || !take_after(g, to)) {
        going_free(g);
        return to == 0 ? err_set(e, ERR_CONFLICT, "there is nothing before this to go back to")
                       : err_set(e, ERR_NOT_FOUND, "generation %llu is not kept",
                                 (unsigned long long)to);
    }
    struct past__fetch *f = past__fetch_new(ps);
    for (size_t at = 0; map_next(&g->was, &at, &unit, &rec);) {
        char *name = str_dup(unit);
        if (!is_nothing(rec) && past__member(ps, name) != NULL) {
            past__fetch_add(f, json_get_text(rec, "hash"));
        }
        free(name);
    }
    past__fetch_run(f, apply, g);
    return 0;
}
