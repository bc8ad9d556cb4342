// What was: generations that can be gone back to, versions held by an undo, the last good of each path.
//
//     commit ──> record {generation, trigger, added, ..., set: every unit's version} ──> state/hub.json
//
// A record names versions by hash; their files are kept in state/versions/ for as long as a record, a
// hold, a last good or trust names them.
//
// Registrations after load make generations too; they are stepped over and not written down.

#include "base/log.h"
#include "base/time.h"
#include "config/home.h"
#include "plugin/plugins_int.h"
#include "store/store.h"
#include "store/versions.h"

enum { SETS_KEPT = 10, RECORDS_KEPT = 50 };

static const char doc_name[] = "state/hub.json", doc_key[] = "plugins";

// ---- versions in records ------------------------------------------------------------------------

static const char *text_of(struct arena *a, const struct json *rec, const char *key)
{
    const struct json *v = json_get(rec, key);
    return v != NULL && v->type == JSON_STR ? arena_strdup(a, v->s) : NULL;
}

static struct past_unit unit_read(struct arena *a, struct str unit, const struct json *rec)
{
    return (struct past_unit){
        .unit = arena_strdup(a, unit),
        .name = text_of(a, rec, "name"),
        .path = text_of(a, rec, "path"),
        .layer = text_of(a, rec, "layer"),
        .source = text_of(a, rec, "source"),
        .project = text_of(a, rec, "project"),
        .hash = text_of(a, rec, "hash"),
        .revision = (uint64_t)json_int(json_get(rec, "revision"), 0),
        .mark = (uint64_t)json_int(json_get(rec, "mark"), 0),
        .options = json_clone(a, json_get(rec, "options")),
        .prefer = json_clone(a, json_get(rec, "prefer")),
    };
}

static void unit_write(const struct past_unit *u, struct jw *w)
{
    jw_obj(w);
    jw_kstrz(w, "hash", u->hash);
    jw_kstrz(w, "name", u->name);
    jw_kstrz(w, "path", u->path);
    jw_kstrz(w, "layer", u->layer);
    jw_kstrz(w, "source", u->source);
    if (u->project != NULL) {
        jw_kstrz(w, "project", u->project);
    }
    jw_kint(w, "revision", (int64_t)u->revision);
    jw_kint(w, "mark", (int64_t)u->mark);
    if (u->options != NULL) {
        jw_key(w, "options");
        jw_value(w, u->options);
    }
    if (u->prefer != NULL) {
        jw_key(w, "prefer");
        jw_value(w, u->prefer);
    }
    jw_end_obj(w);
}

/// What serves as `p` now.
static struct past_unit unit_now(const struct plug *p)
{
    struct plug_origin o = plug__origin(p);
    return (struct past_unit){
        .unit = p->unit,
        .name = p->serving->code.name,
        .path = p->serving->code.path,
        .layer = p->serving->unit->layer,
        .source = o.source,
        .project = p->serving->code.project,
        .hash = p->serving->content->tree.hash,
        .revision = p->serving->unit->revision,
        .mark = p->serving->mark,
        .options = o.options,
        .prefer = o.prefer,
    };
}

// ---- holds --------------------------------------------------------------------------------------

struct hold *past__hold(const struct plugins *ps, const char *unit)
{
    for (size_t i = 0; i < ps->holds.n; i++) {
        if (strcmp(ps->holds.p[i]->unit, unit) == 0) {
            return ps->holds.p[i];
        }
    }
    return NULL;
}

static void hold_free(struct hold *h)
{
    arena_fini(&h->arena);
    free(h->unit);
    free(h->over);
    free(h);
}

void past__release(struct plugins *ps, const char *unit)
{
    for (size_t i = 0; i < ps->holds.n; i++) {
        if (strcmp(ps->holds.p[i]->unit, unit) == 0) {
            hold_free(ps->holds.p[i]);
            vec_remove(&ps->holds, i);
            return;
        }
    }
}

void past__hold_add(struct plugins *ps, struct str unit, const struct json *rec, const char *over)
{
    struct hold *h = xcalloc(1, sizeof *h);
    arena_init(&h->arena);
    h->unit = str_dup(unit);
    h->over = xstrdup(over);
    h->out = rec == NULL;
    h->of = unit_read(&h->arena, unit, rec);
    past__release(ps, h->unit);
    vec_push(&ps->holds, h);
}

static void holds_write(struct plugins *ps, struct jw *w)
{
    jw_arr(w);
    vec_foreach (h, &ps->holds) {
        jw_obj(w);
        jw_kstrz(w, "unit", (*h)->unit);
        jw_kstrz(w, "over", (*h)->over);
        jw_kbool(w, "out", (*h)->out);
        jw_key(w, "of");
        unit_write(&(*h)->of, w);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

/// Does the record say all that a row shows? The file may be damaged.
static bool is_whole(const struct json *rec)
{
    static const char *const keys[] = {"hash", "name", "path", "layer", "source"};
    bool whole = true;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *v = json_get(rec, keys[i]);
        whole = whole && v != NULL && v->type == JSON_STR;
    }
    return whole;
}

static void holds_read(struct plugins *ps, const struct json *list)
{
    json_foreach_item (it, list) {
        char *over = str_dup(json_str(json_get(it, "over"), ""));
        struct str unit = json_str(json_get(it, "unit"), "");
        const struct json *of = json_get(it, "of");
        bool out = json_bool(json_get(it, "out"), false);
        if (unit.n != 0 && (out || is_whole(of))) {
            past__hold_add(ps, unit, of, over);
            (*vec_last(&ps->holds))->out = out;
        }
        free(over);
    }
}

// ---- the last good ------------------------------------------------------------------------------

const char *past__good(const struct plugins *ps, const char *path)
{
    return map_get(&ps->good, str_of(path));
}

static void good_set(struct plugins *ps, struct str path, struct str hash)
{
    free(map_set(&ps->good, path, str_dup(hash)));
}

static void good_write(struct plugins *ps, struct jw *w)
{
    struct str path;
    void *hash;
    jw_obj(w);
    for (size_t at = 0; map_next(&ps->good, &at, &path, &hash);) {
        jw_key_str(w, path);
        jw_strz(w, hash);
    }
    jw_end_obj(w);
}

/// One version on its way to state/versions/.
struct keeping {
    struct content *content;
    char *versions;
    struct err e;
};

static void keep_work(void *arg)
{
    struct keeping *k = arg;
    if (versions_put(k->versions, &k->content->tree, &k->e) < 0) {
        log_warn(LOG_HUB, "version=%s cannot be kept reason=%s", k->content->tree.hash,
                 LOGQ(str_of(k->e.msg)).z);
    }
}

static void keep_done(void *arg)
{
    struct keeping *k = arg;
    content_unref(k->content);
    free(k->versions);
    free(k);
}

void past__keep(struct plugins *ps, const struct loaded *v)
{
    struct keeping *k = xcalloc(1, sizeof *k);
    k->content = content_ref(v->content);
    k->versions = xstrdup(ps->versions);
    work_submit(ps->keeper, 0, keep_work, keep_done, k);
    if (past__hold(ps, v->plug->unit) == NULL) {
        good_set(ps, str_of(v->code.path), str_of(v->content->tree.hash));
    }
}

// ---- pruning ------------------------------------------------------------------------------------

struct pruning {
    struct plugins *ps; // NULL: gone meanwhile
    struct map keep;    // hashes; the values mean nothing
    char *versions, *home;
    struct trust *trust; // the worker's own
};

static bool is_kept(const char *hash, void *arg)
{
    const struct pruning *pr = arg;
    return map_get(&pr->keep, str_of(hash)) != NULL || trust_keeps(pr->trust, hash);
}

static void prune_work(void *arg)
{
    struct pruning *pr = arg;
    struct err e = {0};
    if (trust_open(&pr->trust, pr->home, &e) < 0 ||
        versions_prune(pr->versions, is_kept, pr, &e) < 0) {
        log_warn(LOG_HUB, "versions cannot be pruned reason=%s", LOGQ(str_of(e.msg)).z);
    }
    trust_close(pr->trust);
}

static void prune_done(void *arg)
{
    struct pruning *pr = arg;
    if (pr->ps != NULL) {
        pr->ps->pruning = NULL;
    }
    map_fini(&pr->keep);
    free(pr->versions);
    free(pr->home);
    free(pr);
}

static void keep_hash(struct pruning *pr, struct str hash)
{
    map_set(&pr->keep, hash, pr);
}

static void keep_records(struct pruning *pr)
{
    vec_foreach (r, &pr->ps->past) {
        const struct json *set = json_get((*r)->json, "set");
        json_foreach_member (m, set) {
            keep_hash(pr, json_str(json_get(&m->value, "hash"), ""));
        }
    }
}

/// A record went: versions that nothing names any more go too.
static void prune(struct plugins *ps)
{
    struct pruning *pr = xcalloc(1, sizeof *pr);
    struct str path;
    void *hash;
    pr->ps = ps;
    pr->versions = xstrdup(ps->versions);
    pr->home = xstrdup(ps->opts.home->dir);
    map_init(&pr->keep);
    keep_records(pr);
    vec_foreach (h, &ps->holds) {
        keep_hash(pr, str_of((*h)->of.hash));
    }
    vec_foreach (p, &ps->plugs) {
        if ((*p)->serving != NULL) {
            keep_hash(pr, str_of((*p)->serving->content->tree.hash));
        }
    }
    for (size_t at = 0; map_next(&ps->good, &at, &path, &hash);) {
        keep_hash(pr, str_of(hash));
    }
    ps->pruning = pr;
    work_submit(ps->keeper, 0, prune_work, prune_done, pr);
}

// ---- records ------------------------------------------------------------------------------------

static struct past *record_new(struct str text)
{
    struct past *r = xcalloc(1, sizeof *r);
    struct json *v = NULL;
    arena_init(&r->arena);
    r->text = str_dup(text);
    if (json_parse(&v, &r->arena, (struct str){r->text, text.n}, NULL, NULL) == 0) {
        r->json = v;
    }
    return r;
}

static void record_free(struct past *r)
{
    arena_fini(&r->arena);
    free(r->text);
    free(r);
}

uint64_t past__number(const struct past *r, const char *key)
{
    return (uint64_t)json_int(json_get(r->json, key), 0);
}

static void write_names(struct jw *w, const char *key, struct gen_unit *const *units, size_t n)
{
    jw_key(w, key);
    jw_arr(w);
    for (size_t i = 0; i < n; i++) {
        jw_strz(w, units[i]->name);
    }
    jw_end_arr(w);
}

static void write_set(struct plugins *ps, struct jw *w)
{
    jw_obj(w);
    vec_foreach (p, &ps->plugs) {
        if ((*p)->serving != NULL) {
            struct past_unit u = unit_now(*p);
            jw_key(w, (*p)->unit);
            unit_write(&u, w);
        }
    }
    jw_end_obj(w);
}

/// Records beyond the last ten different sets go, and so do more than fifty in all.
static bool trim(struct plugins *ps)
{
    size_t sets = 0, keep = 0;
    for (; keep < ps->past.n && keep < RECORDS_KEPT && sets < SETS_KEPT; keep++) {
        const struct json *set = json_get(ps->past.p[keep]->json, "set");
        const struct json *next =
            keep + 1 < ps->past.n ? json_get(ps->past.p[keep + 1]->json, "set") : NULL;
        sets += !json_equal(set, next);
    }
    bool any = ps->past.n > keep;
    while (ps->past.n > keep) {
        record_free(vec_pop(&ps->past));
    }
    return any;
}

void past__committed(const struct gen_committed *c, void *arg)
{
    struct plugins *ps = arg;
    struct buf b;
    struct jw w;
    ps->number = c->generation;
    if (strcmp(c->trigger, "register") == 0) {
        return;
    }
    buf_init(&b, SIZE_MAX);
    jw_init(&w, &b);
    jw_obj(&w);
    jw_kint(&w, "generation", (int64_t)c->generation);
    jw_kint(&w, "to", (int64_t)ps->undo_to);
    jw_kint(&w, "at", time_wall_ms());
    jw_kstrz(&w, "trigger", c->trigger);
    write_names(&w, "added", c->added, c->n_added);
    write_names(&w, "changed", c->changed, c->n_changed);
    write_names(&w, "removed", c->removed, c->n_removed);
    jw_key(&w, "set");
    write_set(ps, &w);
    jw_end_obj(&w);
    vec_reserve(&ps->past, ps->past.n + 1);
    memmove(ps->past.p + 1, ps->past.p, ps->past.n * sizeof *ps->past.p);
    ps->past.p[0] = record_new(buf_str(&b));
    ps->past.n++;
    ps->undo_to = 0;
    buf_fini(&b);
    if (trim(ps) && ps->pruning == NULL) {
        prune(ps);
    }
    past__save(ps);
}

// ---- the document -------------------------------------------------------------------------------

static void on_saved(void *arg, int status, const struct err *e)
{
    (void)arg;
    if (status < 0) {
        log_warn(LOG_HUB, "generations cannot be kept reason=%s", LOGQ(str_of(e->msg)).z);
    }
}

void past__save(struct plugins *ps)
{
    struct buf b;
    struct jw w;
    buf_init(&b, SIZE_MAX);
    jw_init(&w, &b);
    jw_obj(&w);
    jw_kint(&w, "number", (int64_t)ps->number);
    jw_key(&w, "good");
    good_write(ps, &w);
    jw_key(&w, "held");
    holds_write(ps, &w);
    jw_key(&w, "past");
    jw_arr(&w);
    vec_foreach (r, &ps->past) {
        jw_raw(&w, str_of((*r)->text));
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    store_doc_set(ps->opts.store, str_of(doc_name), str_of(doc_key), buf_str(&b), on_saved, NULL);
    buf_fini(&b);
}

static void take_document(struct plugins *ps, const struct json *doc)
{
    const struct json *mine = json_get(doc, doc_key);
    const struct json *past = json_get(mine, "past"), *good = json_get(mine, "good");
    ps->number = (uint64_t)MAX(json_int(json_get(mine, "number"), 0), 0);
    json_foreach_item (it, past) {
        struct buf b;
        buf_init(&b, SIZE_MAX);
        json_write(&b, it, 0);
        vec_push(&ps->past, record_new(buf_str(&b)));
        buf_fini(&b);
    }
    json_foreach_member (m, good) {
        if (m->value.type == JSON_STR && m->value.s.n == SHA256_HEX - 1) {
            good_set(ps, m->key, m->value.s);
        }
    }
    holds_read(ps, json_get(mine, "held"));
}

static void on_document(void *arg, int status, struct str text, const struct err *e)
{
    struct plugins *ps = arg;
    struct arena a;
    struct json *doc = NULL;
    arena_init(&a);
    if (status < 0) {
        log_warn(LOG_HUB, "kept generations cannot be read reason=%s", LOGQ(str_of(e->msg)).z);
    } else if (text.n != 0 && json_parse(&doc, &a, text, NULL, NULL) == 0) {
        take_document(ps, doc);
    }
    arena_fini(&a);
    plugins__remembered(ps);
}

void past__load(struct plugins *ps)
{
    store_doc_get(ps->opts.store, str_of(doc_name), on_document, ps);
}

void past__free(struct plugins *ps)
{
    struct str path;
    void *hash;
    if (ps->pruning != NULL) {
        ps->pruning->ps = NULL;
    }
    for (size_t at = 0; map_next(&ps->good, &at, &path, &hash);) {
        free(hash);
    }
    map_fini(&ps->good);
    vec_foreach (r, &ps->past) {
        record_free(*r);
    }
    vec_foreach (h, &ps->holds) {
        hold_free(*h);
    }
    vec_fini(&ps->past);
    vec_fini(&ps->holds);
}
