// Remembered rules, per project.
//
//     dir ──lane: which project?──> place ──> slug ──> permissions/<slug>.json ──> struct rules
//
// A rule's id begins with the slug of its project ("myrepo.1f4e2a90"), so a rule can be removed by its id
// alone, whether or not its project is in memory.
//
// Two projects may have the same slug. A document names its project in the member `path`; a project that
// finds another's takes the slug with eight digits of its own path's hash.
//
// Invariants:
//   - a project in `projects` is loaded, or has waiters and a read under way.
//   - a project that could not be read is forgotten again: the next call tries anew.

#include "permit/book.h"

#include <assert.h>

#include "base/map.h"
#include "base/random.h"
#include "base/slug.h"
#include "base/time.h"
#include "base/vec.h"
#include "trust/place.h"

struct book_waiter {
    book_ready *ready;
    void *arg;
};

struct book_project {
    struct book *book;
    char *place;
    char slug[SLUG_TEXT];
    bool loaded, second; // the first slug belongs to another project
    struct rules rules;
    vec(struct book_waiter) waiters;
};

struct book {
    struct store *store;
    struct lane *lane;
    const char *home;
    struct map projects; // by place
    struct map dirs;     // the same by directories that were asked for
};

static void project_free(struct book_project *p)
{
    rules_fini(&p->rules);
    vec_fini(&p->waiters);
    free(p->place);
    free(p);
}

struct book *book_new(struct store *store, struct lane *lane, const char *home)
{
    struct book *b = xcalloc(1, sizeof *b);
    *b = (struct book){.store = store, .lane = lane, .home = home};
    map_init(&b->projects);
    map_init(&b->dirs);
    return b;
}

void book_free(struct book *b)
{
    if (b == NULL) {
        return;
    }
    map_fini_each(&b->projects, project_free);
    map_fini(&b->dirs);
    free(b);
}

const struct rules *book_rules(const struct book_project *p)
{
    return &p->rules;
}

// ---- reading ------------------------------------------------------------------------------------

static const char *document(const struct book_project *p, char out[SLUG_TEXT + 32])
{
    snprintf(out, SLUG_TEXT + 32, "permissions/%s.json", p->slug);
    return out;
}

static void forget_project(struct book_project *p)
{
    struct book *b = p->book;
    size_t at = 0;
    struct str key;
    void *value;
    while (map_next(&b->dirs, &at, &key, &value)) {
        if (value == p) {
            map_remove(&b->dirs, key);
            at = 0;
        }
    }
    map_remove(&b->projects, str_of(p->place));
    project_free(p);
}

static int read_rule(struct rules *out, const struct json_member *m, struct arena *a, struct err *e)
{
    const struct json *v = &m->value;
    struct str match = json_str(json_get(v, "match"), "");
    struct str session = json_str(json_get(v, "session"), "");
    struct rule r = {.id = arena_strdup(a, m->key),
                     .tool = arena_strdup(a, json_str(json_get(v, "tool"), "")),
                     .match = match.n != 0 ? arena_strdup(a, match) : NULL,
                     .session = session.n != 0 ? arena_strdup(a, session) : NULL,
                     .exact = json_bool(json_get(v, "exact"), false),
                     .at_ms = json_int(json_get(v, "at_ms"), 0)};
    int rc = 0;
    if (r.tool[0] == '\0' ||
        !permit_verdict_find(json_str(json_get(v, "decision"), ""), &r.decision)) {
        rc = err_set(e, ERR_CORRUPT, "'tool' or 'decision' is missing");
    }
    return rc == 0 ? rules_add(out, &r, e) : rc;
}

static int read_document(struct book_project *p, const struct json *doc, struct arena *a,
                         struct err *e)
{
    json_foreach_member (m, doc) {
        if (str_eqz(m->key, "path")) {
            continue;
        }
        if (read_rule(&p->rules, m, a, e) < 0) {
            char id[80];
            snprintf(id, sizeof id, STR_FMT, STR_ARG(m->key));
            return err_prefix(e, "rule '%s' in permissions/%s.json", id, p->slug);
        }
    }
    return 0;
}

static void read_project(struct book_project *p);

static void on_read(void *arg, int status, struct str text, const struct err *fault)
{
    struct book_project *p = arg;
    struct err e = fault != NULL ? *fault : (struct err){0};
    struct arena a = {0};
    struct json *doc = NULL;
    if (status == 0 && text.n != 0) {
        status = json_parse(&doc, &a, text, NULL, &e);
    }
    struct str owner = json_str(json_get(doc, "path"), "");
    if (status == 0 && owner.n != 0 && !str_eqz(owner, p->place) && !p->second) {
        p->second = true;
        arena_fini(&a);
        read_project(p);
        return;
    }
    if (status == 0 && doc != NULL) {
        status = read_document(p, doc, &a, &e);
    }
    arena_fini(&a);
    p->loaded = status == 0;
    for (size_t i = 0; i < p->waiters.n; i++) {
        p->waiters.p[i].ready(p->waiters.p[i].arg, p->loaded ? p : NULL, p->loaded ? NULL : &e);
    }
    p->waiters.n = 0;
    if (status != 0) {
        forget_project(p);
    }
}

static void read_project(struct book_project *p)
{
    char name[SLUG_TEXT + 32];
    p->second ? slug_taken(p->place, 8, p->slug) : slug_of(p->place, p->slug);
    store_doc_get(p->book->store, str_of(document(p, name)), on_read, p);
}

// ---- finding ------------------------------------------------------------------------------------

struct finding {
    struct book *book;
    char *dir, *place;
    struct book_waiter waiter;
};

static void find_place(void *arg) // on the lane
{
    struct finding *f = arg;
    struct trust_place at = {0};
    f->place =
        trust_place_of(&at, f->book->home, f->dir, NULL) == 0 ? xstrdup(at.place) : xstrdup(f->dir);
    trust_place_fini(&at);
}

static void wait_for(struct book_project *p, struct book_waiter w)
{
    if (p->loaded) {
        w.ready(w.arg, p, NULL);
    } else {
        vec_push(&p->waiters, w);
    }
}

static void on_found(void *arg)
{
    struct finding *f = arg;
    struct book *b = f->book;
    struct book_project *p = map_get(&b->projects, str_of(f->place));
    bool fresh = p == NULL;
    if (fresh) {
        p = xcalloc(1, sizeof *p);
        p->book = b;
        p->place = xstrdup(f->place);
        rules_init(&p->rules);
        map_set(&b->projects, str_of(f->place), p);
    }
    map_set(&b->dirs, str_of(f->dir), p);
    wait_for(p, f->waiter);
    free(f->dir);
    free(f->place);
    free(f);
    if (fresh) {
        read_project(p);
    }
}

void book_find(struct book *b, const char *dir, book_ready *ready, void *arg)
{
    struct book_project *known = map_get(&b->dirs, str_of(dir));
    struct book_waiter w = {ready, arg};
    if (known != NULL) {
        wait_for(known, w);
        return;
    }
    struct finding *f = xcalloc(1, sizeof *f);
    *f = (struct finding){.book = b, .dir = xstrdup(dir), .waiter = w};
    work_submit(b->lane, work_mount_key(dir), find_place, on_found, f);
}

// ---- changing -----------------------------------------------------------------------------------

/// A change on its way to the disk.
struct writing {
    struct book_project *project; // NULL: it is not in memory
    char *id;
    book_done *done;
    void *arg;
};

static ssize_t rule_index(const struct rules *r, struct str id)
{
    for (size_t i = 0; i < r->n; i++) {
        if (str_eqz(id, r->p[i].id)) {
            return (ssize_t)i;
        }
    }
    return -1;
}

static void drop_rule(struct book_project *p, struct str id)
{
    ssize_t i = rule_index(&p->rules, id);
    if (i >= 0) {
        vec_remove(&p->rules, i);
    }
}

static void writing_end(struct writing *w, const struct rule *r, const struct err *e)
{
    if (w->done != NULL) {
        w->done(w->arg, r, e);
    }
    free(w->id);
    free(w);
}

static void on_added(void *arg, int status, const struct err *e)
{
    struct writing *w = arg;
    if (status < 0) {
        drop_rule(w->project, str_of(w->id));
    }
    ssize_t i = rule_index(&w->project->rules, str_of(w->id));
    writing_end(w, i >= 0 ? &w->project->rules.p[i] : NULL, status < 0 ? e : NULL);
}

static void write_rule(struct buf *out, const struct rule *r)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "tool", r->tool);
    if (r->match != NULL) {
        jw_kstrz(&w, "match", r->match);
    }
    if (r->exact) {
        jw_kbool(&w, "exact", true);
    }
    jw_kstrz(&w, "decision", permit_verdict_name(r->decision));
    if (r->session != NULL) {
        jw_kstrz(&w, "session", r->session);
    }
    jw_kint(&w, "at_ms", r->at_ms);
    jw_end_obj(&w);
}

void book_add(struct book_project *p, const struct rule *r, book_done *done, void *arg)
{
    char id[SLUG_TEXT + 32], name[SLUG_TEXT + 32], random[9];
    struct err e = {0};
    struct buf json = {.max = SIZE_MAX}, path = {.max = SIZE_MAX};
    struct rule own = *r;
    assert(done != NULL);
    random_hex(random, sizeof random);
    snprintf(id, sizeof id, "%s.%s", p->slug, random);
    own.id = id;
    own.at_ms = time_wall_ms();
    if (rules_add(&p->rules, &own, &e) < 0) {
        done(arg, NULL, &e);
        return;
    }
    struct writing *w = xcalloc(1, sizeof *w);
    *w = (struct writing){.project = p, .id = xstrdup(id), .done = done, .arg = arg};
    write_rule(&json, &own);
    struct jw jw = {.out = &path};
    jw_str(&jw, str_of(p->place)); // the document is this project's
    store_doc_set(p->book->store, str_of(document(p, name)), STR("path"), buf_str(&path), NULL,
                  NULL);
    store_doc_set(p->book->store, str_of(name), str_of(id), buf_str(&json), on_added, w);
    buf_fini(&path);
    buf_fini(&json);
}

static void on_removed(void *arg, int status, const struct err *e)
{
    struct writing *w = arg;
    if (status == 0 && w->project != NULL) {
        drop_rule(w->project, str_of(w->id));
    }
    writing_end(w, NULL, status < 0 ? e : NULL);
}

/// `id` is not in memory, so its document tells whether it exists.
struct looking {
    struct book *book;
    struct writing *writing;
    char *name;
};

static void on_looked(void *arg, int status, struct str text, const struct err *e)
{
    struct looking *l = arg;
    struct arena a = {0};
    struct json *doc = NULL;
    struct err none = {0};
    if (status == 0 && text.n != 0 && json_parse(&doc, &a, text, NULL, NULL) == 0 &&
        json_get(doc, l->writing->id) != NULL) {
        store_doc_set(l->book->store, str_of(l->name), str_of(l->writing->id), STR_NULL, on_removed,
                      l->writing);
    } else {
        err_set(&none, ERR_NOT_FOUND, "no rule '%s'", l->writing->id);
        writing_end(l->writing, NULL, status < 0 ? e : &none);
    }
    arena_fini(&a);
    free(l->name);
    free(l);
}

/// The project in memory that has this rule, or NULL.
static struct book_project *project_of(struct book *b, struct str id)
{
    size_t at = 0;
    struct str key;
    void *value;
    while (map_next(&b->projects, &at, &key, &value)) {
        struct book_project *p = value;
        if (rule_index(&p->rules, id) >= 0) {
            return p;
        }
    }
    return NULL;
}

void book_remove(struct book *b, struct str id, book_done *done, void *arg)
{
    struct str rest = id, slug = str_cut(&rest, '.');
    struct writing *w = xcalloc(1, sizeof *w);
    struct err e = {0};
    *w =
        (struct writing){.project = project_of(b, id), .id = str_dup(id), .done = done, .arg = arg};
    if (!slug_valid(slug) || rest.n == 0) {
        err_set(&e, ERR_NOT_FOUND, "no rule '%.60s'", w->id);
        writing_end(w, NULL, &e);
        return;
    }
    char *name = xasprintf("permissions/" STR_FMT ".json", STR_ARG(slug));
    if (w->project != NULL) {
        store_doc_set(b->store, str_of(name), id, STR_NULL, on_removed, w);
        free(name);
        return;
    }
    struct looking *l = xcalloc(1, sizeof *l);
    *l = (struct looking){.book = b, .writing = w, .name = name};
    store_doc_get(b->store, str_of(name), on_looked, l);
}

void book_forget_session(struct book *b, const char *session)
{
    size_t at = 0;
    struct str key;
    void *value;
    while (map_next(&b->projects, &at, &key, &value)) {
        const struct rules *r = &((struct book_project *)value)->rules;
        for (size_t i = 0; i < r->n; i++) {
            if (r->p[i].session != NULL && strcmp(r->p[i].session, session) == 0) {
                book_remove(b, str_of(r->p[i].id), NULL, NULL);
            }
        }
    }
}
