// The past: changes that can be undone, and the versions that serve, over restarts.
//
//     commit ──> record {generation, trigger, added, ..., was: {unit: its version before}, chosen: {...}}
//                                                          ──> state/hub.json, beside `now` and `good`
//
// A record says what a commit replaced, not all that there is: a save costs the same however many units
// serve. What serves is in `now`; it is written down, so that after a restart only what differs from
// before is a change. Versions are named by hash; their files are in state/versions/ (past_keep.c).
//
// Registrations after load make generations too. They are listed; undo steps over them. They may come at any rate, so
// they are counted apart when old records go, and are written down only with the next change.

#include <assert.h>

#include "base/log.h"
#include "base/time.h"
#include "plugin/plugins_int.h"
#include "store/choices.h"
#include "store/store.h"

enum { CHANGES_KEPT = 10, RECORDS_KEPT = 50, UNITS_FEW = 200, SAVE_MS = 100 };

static const char doc_name[] = "state/hub.json", doc_key[] = "plugins";

// ---- versions in records ------------------------------------------------------------------------

/// The texts of a version as records have them; the first five are always there.
static const struct {
    const char *key;
    size_t at; // a const char *
} texts[] = {
    {"hash", offsetof(struct past_unit, hash)},
    {"name", offsetof(struct past_unit, name)},
    {"path", offsetof(struct past_unit, path)},
    {"layer", offsetof(struct past_unit, layer)},
    {"source", offsetof(struct past_unit, source)},
    {"project", offsetof(struct past_unit, project)},
    {"note", offsetof(struct past_unit, note)},
};
enum { TEXTS_SURE = 5 };

static void unit_write(const struct past_unit *u, struct jw *w)
{
    jw_obj(w);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *text;
        memcpy(&text, (const char *)u + texts[i].at, sizeof text);
        if (text != NULL) {
            jw_kstrz(w, texts[i].key, text);
        }
    }
    jw_kint(w, "revision", (int64_t)u->revision);
    jw_kint(w, "mark", (int64_t)u->mark);
    if (u->options != NULL) {
        jw_kvalue(w, "options", u->options);
    }
    if (u->prefer != NULL) {
        jw_kvalue(w, "prefer", u->prefer);
    }
    jw_end_obj(w);
}

/// Does the record say all that a row shows? The file may be damaged.
static bool is_whole(const struct json *rec)
{
    bool whole = true;
    for (size_t i = 0; i < TEXTS_SURE; i++) {
        const struct json *v = json_get(rec, texts[i].key);
        whole = whole && v != NULL && v->type == JSON_STR;
    }
    return whole;
}

/// Is it a record as we write them? An undo serves the versions that it names.
static bool is_record(const struct json *v)
{
    const struct json *was = json_get(v, "was");
    bool good = was != NULL && was->type == JSON_OBJ; // those of an older program have none
    json_foreach_member (m, was) {
        good = good && (m->value.type == JSON_NULL || is_whole(&m->value));
    }
    return good;
}

/// What serves as `unit` now; false: nothing that is kept.
static bool unit_now(const struct plugins *ps, const char *unit, struct past_unit *out)
{
    const struct past__joined *j = past__member(ps, unit);
    const struct plugin *p = j == NULL ? plugins__plug(ps, unit) : NULL;
    const struct loaded *v = p != NULL ? p->serving : NULL;
    struct past_text t = {0};
    if (v != NULL) {
        struct plugin_origin o = plugin__origin(p);
        *out = (struct past_unit){.name = v->code.name,
                                  .path = v->code.path,
                                  .layer = v->unit->layer,
                                  .source = o.source,
                                  .project = v->code.project,
                                  .hash = v->content->tree.hash,
                                  .revision = v->unit->revision,
                                  .mark = v->mark,
                                  .options = o.options,
                                  .prefer = o.prefer};
    } else if (j != NULL && j->m->serving(j->arg, unit, &t)) {
        *out = (struct past_unit){.name = unit,
                                  .path = t.path,
                                  .layer = t.layer,
                                  .source = "file",
                                  .hash = t.hash,
                                  .note = t.note,
                                  .revision = t.revision};
    } else {
        return false;
    }
    return true;
}

// ---- members ------------------------------------------------------------------------------------

void past_join(struct plugins *ps, const struct past_member *m, const char *dir, void *arg)
{
    vec_push(&ps->members, ((struct past__joined){.m = m, .dir = dir, .arg = arg}));
}

const struct past__joined *past__member(const struct plugins *ps, const char *unit)
{
    for (size_t i = 0; i < ps->members.n; i++) {
        if (str_starts(str_of(unit), ps->members.p[i].m->prefix)) {
            return &ps->members.p[i];
        }
    }
    return NULL;
}

void past_await(struct plugins *ps, loop_fn *cb, void *arg)
{
    if (ps->remembered) {
        cb(arg);
    } else {
        vec_push(&ps->waiting, ((struct past__waiter){cb, arg}));
    }
}

bool past_held(const struct plugins *ps, const char *unit, struct past_held *out)
{
    const struct hold *h = past__hold(ps, unit);
    if (h == NULL || (!h->out && h->bytes.p == NULL)) {
        return false;
    }
    *out = (struct past_held){.out = h->out,
                              .over = h->over,
                              .text = {.path = h->of.path,
                                       .layer = h->of.layer,
                                       .hash = h->of.hash,
                                       .note = h->of.note,
                                       .bytes = h->bytes,
                                       .revision = h->of.revision}};
    return true;
}

const char *past_next_held(const struct plugins *ps, const char *prefix, size_t *at)
{
    for (; *at < ps->holds.n; (*at)++) {
        if (str_starts(str_of(ps->holds.p[*at]->unit), prefix)) {
            return ps->holds.p[(*at)++]->unit;
        }
    }
    return NULL;
}

void past_unhold(struct plugins *ps, const char *unit)
{
    past__release(ps, unit);
    past__save(ps);
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
    struct hold *h = past__hold(ps, unit);
    if (h != NULL) {
        vec_drop(&ps->holds, h);
        hold_free(h);
    }
}

struct hold *past__hold_add(struct plugins *ps, struct str unit, const struct json *rec,
                            const char *over)
{
    struct hold *h = xcalloc(1, sizeof *h);
    struct arena *a = &h->arena;
    assert(unit.n != 0);
    h->unit = str_dup(unit);
    h->over = xstrdup(over);
    h->out = rec == NULL;
    h->of = (struct past_unit){
        .revision = (uint64_t)json_int(json_get(rec, "revision"), 0),
        .mark = (uint64_t)json_int(json_get(rec, "mark"), 0),
        .options = json_clone(a, json_get(rec, "options")),
        .prefer = json_clone(a, json_get(rec, "prefer")),
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const struct json *v = json_get(rec, texts[i].key);
        const char *text = v != NULL && v->type == JSON_STR ? arena_strdup(a, v->s) : NULL;
        memcpy((char *)&h->of + texts[i].at, &text, sizeof text);
    }
    past__release(ps, h->unit);
    vec_push(&ps->holds, h);
    return h;
}

// ---- what serves --------------------------------------------------------------------------------

/// `text` is taken over.
static struct past__now *now_new(struct str hash, uint64_t mark, struct buf *text)
{
    struct past__now *n = xcalloc(1, sizeof *n);
    snprintf(n->hash, sizeof n->hash, STR_FMT, STR_ARG(hash));
    n->mark = mark;
    n->text = buf_take(text, NULL);
    return n;
}

static void now_free(struct past__now *n)
{
    if (n != NULL) {
        free(n->text);
        free(n);
    }
}

// ---- records ------------------------------------------------------------------------------------

/// `text` is taken over.
static struct past *record_new(struct buf *text)
{
    struct past *r = xcalloc(1, sizeof *r);
    struct json *v = NULL;
    size_t n;
    r->text = buf_take(text, &n);
    if (json_parse(&v, &r->arena, (struct str){r->text, n}, NULL, NULL) == 0) {
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

/// One unit came, changed or went: write down what was there, where that is another version.
static void note_unit(struct plugins *ps, struct jw *w, const char *unit, bool base)
{
    struct past_unit u;
    bool serves = unit_now(ps, unit, &u);
    struct past__now *old = map_get(&ps->now, str_of(unit)), *now = NULL;
    bool same =
        serves ? old != NULL && strcmp(old->hash, u.hash) == 0 && old->mark == u.mark : old == NULL;
    if (!same && !base) {
        jw_key(w, unit);
        jw_raw(w, old != NULL ? str_of(old->text) : STR("null"));
    }
    if (serves) {
        struct buf b = {.max = SIZE_MAX};
        struct jw own = {.out = &b};
        unit_write(&u, &own);
        now = now_new(str_of(u.hash), u.mark, &b);
    }
    now_free(now != NULL ? map_set(&ps->now, str_of(unit), now)
                         : map_remove(&ps->now, str_of(unit)));
}

bool past__is_change(const struct past *r)
{
    const struct json *was = json_get(r->json, "was"), *chosen = json_get(r->json, "chosen");
    return (was != NULL && was->n != 0) || (chosen != NULL && chosen->n != 0);
}

static bool is_registration(struct str trigger)
{
    return str_eqz(trigger, "register");
}

/// Records beyond the last ten changes go, and so do more than fifty registrations and more than fifty others.
static void trim(struct plugins *ps)
{
    size_t changes = 0, kept = 0, seen[2] = {0};
    bool prune = false;
    for (size_t i = 0; i < ps->past.n; i++) {
        struct past *r = ps->past.p[i];
        bool other = !is_registration(json_str(json_get(r->json, "trigger"), ""));
        if (changes < CHANGES_KEPT && seen[other]++ < RECORDS_KEPT) {
            changes += past__is_change(r);
            ps->past.p[kept++] = r;
        } else {
            prune = prune || other;
            record_free(r);
        }
    }
    ps->past.n = kept;
    if (prune) {
        past__prune_soon(ps);
    }
}

static void on_save_time(void *arg)
{
    past__save(arg);
}

void past__committed(const struct gen_committed *c, void *arg)
{
    struct plugins *ps = arg;
    struct buf b = {.max = SIZE_MAX};
    const struct {
        const char *key;
        struct gen_unit *const *units;
        size_t n;
    } lists[] = {{"added", c->added, c->n_added},
                 {"changed", c->changed, c->n_changed},
                 {"removed", c->removed, c->n_removed}};
    bool change = !is_registration(str_of(c->trigger));
    ps->number = c->generation;
    // what the first start of a home brings is no change that could be undone
    ps->fresh = ps->fresh && (ps->past.n == 0 || strcmp(c->trigger, "start") == 0);
    struct jw w = {.out = &b};
    jw_obj(&w);
    jw_kint(&w, "id", (int64_t)++ps->last_id);
    jw_kint(&w, "generation", (int64_t)c->generation);
    jw_kint(&w, "to", change ? (int64_t)ps->undo_to : 0);
    jw_kint(&w, "at", time_wall_ms());
    jw_kstrz(&w, "trigger", c->trigger);
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        jw_karr(&w, lists[k].key);
        for (size_t i = 0; i < lists[k].n; i++) {
            jw_strz(&w, lists[k].units[i]->name);
        }
        jw_end_arr(&w);
    }
    jw_kobj(&w, "was");
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        for (size_t i = 0; i < lists[k].n; i++) {
            note_unit(ps, &w, lists[k].units[i]->name, ps->fresh);
        }
    }
    jw_end_obj(&w);
    if (change) {
        jw_key(&w, "chosen");
        past__note_choices(ps, &w, ps->fresh);
    }
    jw_end_obj(&w);
    vec_reserve(&ps->past, ps->past.n + 1);
    memmove(ps->past.p + 1, ps->past.p, ps->past.n * sizeof *ps->past.p);
    ps->past.p[0] = record_new(&b);
    ps->past.n++;
    trim(ps);
    if (!change) {
        return;
    }
    // The document names every plugin: with very many, writing it with each commit would make saves slow. A hub that
    // is killed before it is written finds what it served in the files, unless they changed too; an answer that tells
    // of a commit waits for it (plugins_await_saved()). What an undo holds is nowhere else.
    if (ps->stopped || ps->now.n <= UNITS_FEW || ps->undo_to != 0) {
        past__save(ps);
    } else if (!timer_running(&ps->saving)) {
        timer_init(&ps->saving, ps->opts.hub->loop, on_save_time, ps);
        timer_start(&ps->saving, SAVE_MS);
    }
    ps->undo_to = 0;
}

// ---- the document -------------------------------------------------------------------------------

/// One writing of the document.
struct past__write {
    struct plugins *ps; // NULL: gone meanwhile
};

static void tell_saved(struct plugins *ps)
{
    for (size_t i = 0, n = ps->save_waiting.n; i < n; i++) {
        struct past__waiter w = ps->save_waiting.p[0]; // it may ask again
        vec_remove(&ps->save_waiting, 0);
        w.cb(w.arg);
    }
}

static void on_written(void *arg, int status, const struct err *e)
{
    struct past__write *write = arg;
    struct plugins *ps = write->ps;
    assert(ps == NULL || ps->writing == write);
    free(write);
    if (status < 0) {
        log_warn(LOG_HUB, "generations cannot be kept reason=%s", LOGQ(str_of(e->msg)).z);
    }
    if (ps != NULL) {
        ps->writing = NULL;
        if (ps->save_again) {
            past__save(ps);
        } else {
            tell_saved(ps);
        }
    }
}

static void write_document(struct plugins *ps, struct past__write *write)
{
    struct buf b = {.max = SIZE_MAX};
    struct str unit;
    void *now;
    struct jw w = {.out = &b};
    jw_obj(&w);
    jw_kint(&w, "number", (int64_t)ps->number);
    jw_kint(&w, "id", (int64_t)ps->last_id);
    jw_key(&w, "good");
    past__good_write(ps, &w);
    jw_karr(&w, "held");
    vec_foreach (h, &ps->holds) {
        jw_obj(&w);
        jw_kstrz(&w, "unit", (*h)->unit);
        jw_kstrz(&w, "over", (*h)->over);
        jw_kbool(&w, "out", (*h)->out);
        jw_kbool(&w, "over_off", (*h)->over_off);
        jw_key(&w, "of");
        unit_write(&(*h)->of, &w);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_kobj(&w, "now");
    for (size_t at = 0; map_next(&ps->now, &at, &unit, &now);) {
        jw_key_str(&w, unit);
        jw_raw(&w, str_of(((struct past__now *)now)->text));
    }
    jw_end_obj(&w);
    jw_kvalue(&w, "chosen", ps->chosen);
    jw_karr(&w, "past");
    vec_foreach (r, &ps->past) {
        jw_raw(&w, str_of((*r)->text));
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    store_doc_set(ps->opts.hub->store, str_of(doc_name), str_of(doc_key), buf_str(&b), on_written,
                  write);
    buf_fini(&b);
}

static void nothing(void *arg)
{
    (void)arg;
}

/// The versions that the document will name are on disk.
static void on_versions_kept(void *arg)
{
    struct past__write *write = arg;
    struct plugins *ps = write->ps;
    if (ps->stopped) { // that wrote it
        ps->writing = NULL;
        free(write);
    } else {
        ps->save_again = false;
        write_document(ps, write);
    }
}

void past__save(struct plugins *ps)
{
    timer_stop(&ps->saving);
    if (ps->stopped) { // the lane ends with its last job
        write_document(ps, xcalloc(1, sizeof(struct past__write)));
        tell_saved(ps);
    } else if (ps->writing != NULL) {
        ps->save_again = true;
    } else {
        ps->writing = xcalloc(1, sizeof *ps->writing);
        ps->writing->ps = ps;
        work_submit(ps->keeper, 0, nothing, on_versions_kept, ps->writing);
    }
}

void plugins_await_saved(struct plugins *ps, loop_fn *cb, void *arg)
{
    if (timer_running(&ps->saving)) {
        past__save(ps);
    }
    if (ps->writing == NULL || ps->stopped) {
        cb(arg);
    } else {
        vec_push(&ps->save_waiting, ((struct past__waiter){cb, arg}));
    }
}

static void take_document(struct plugins *ps, const struct json *doc)
{
    const struct json *mine = json_get(doc, doc_key);
    ps->number = (uint64_t)MAX(json_int(json_get(mine, "number"), 0), 0);
    ps->last_id = (uint64_t)MAX(json_int(json_get(mine, "id"), 0), 0);
    json_foreach_item (it, json_get(mine, "past")) {
        if (is_record(it)) {
            struct buf b = {.max = SIZE_MAX};
            json_write(&b, it, 0);
            vec_push(&ps->past, record_new(&b));
        }
    }
    past__good_read(ps, json_get(mine, "good"));
    json_foreach_member (m, json_get(mine, "now")) {
        if (is_whole(&m->value)) {
            struct buf b = {.max = SIZE_MAX};
            json_write(&b, &m->value, 0);
            now_free(map_set(&ps->now, m->key,
                             now_new(json_get_text(&m->value, "hash"),
                                     (uint64_t)json_int(json_get(&m->value, "mark"), 0), &b)));
        }
    }
    json_foreach_item (it, json_get(mine, "held")) {
        char *over = str_dup(json_get_text(it, "over"));
        struct str unit = json_get_text(it, "unit");
        const struct json *of = json_get(it, "of");
        bool out = json_bool(json_get(it, "out"), false);
        if (unit.n != 0 && (out || is_whole(of))) {
            struct hold *h = past__hold_add(ps, unit, of, over);
            h->out = out;
            h->over_off = json_bool(json_get(it, "over_off"), false);
        }
        free(over);
    }
    const struct json *chosen = json_get(mine, "chosen");
    past__take_choices(ps, chosen != NULL ? chosen : choices_all(ps->opts.hub->choices));
}

static void on_document(void *arg, int status, struct str text, const struct err *e)
{
    struct plugins *ps = arg;
    struct arena a = {0};
    struct json *doc = NULL;
    if (status < 0) {
        log_warn(LOG_HUB, "kept generations cannot be read reason=%s", LOGQ(str_of(e->msg)).z);
    } else if (text.n != 0 && json_parse(&doc, &a, text, NULL, NULL) == 0) {
        take_document(ps, doc);
    }
    arena_fini(&a);
    ps->fresh = ps->past.n == 0 && ps->now.n == 0;
    past__fetch_texts(ps); // ends with plugins__remembered()
}

void past__load(struct plugins *ps)
{
    store_doc_get(ps->opts.hub->store, str_of(doc_name), on_document, ps);
}

void past__free(struct plugins *ps)
{
    past__keep_free(ps);
    if (ps->writing != NULL) {
        ps->writing->ps = NULL;
    }
    vec_fini(&ps->save_waiting);
    map_fini_each(&ps->now, now_free);
    vec_fini_each(&ps->past, record_free);
    vec_fini_each(&ps->holds, hold_free);
    vec_fini(&ps->members);
    vec_fini(&ps->waiting);
    arena_fini(&ps->chosen_arena);
}
