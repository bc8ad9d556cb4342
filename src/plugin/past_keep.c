// Versions by content: kept when they serve, read back when they are wanted, pruned when nothing names them.
//
//     a version serves ──> state/versions/<hash>/ ──> an undo, a restart: fetched
//                                                 └─> named by no record, hold, last good, trust: removed
//
// The last good version of a path is the one that loaded last from what is there. Those of modules and
// improvements are read with the document: a broken file is noticed while it loads, when nothing may
// wait for the disk.

#include <assert.h>

#include "base/log.h"
#include "base/path.h"
#include "config/home.h"
#include "plugin/plugins_int.h"
#include "store/versions.h"

enum { PRUNE_MS = 1000 };

void past_hash(const char *path, struct str bytes, char out[SHA256_HEX])
{
    struct tree t;
    struct str name = path_base(str_of(path));
    tree_of_file(&t, name.p, bytes);
    memcpy(out, t.hash, SHA256_HEX);
    tree_fini(&t);
}

// ---- the last good ------------------------------------------------------------------------------

/// What loaded last from a path.
struct good {
    char hash[SHA256_HEX];
    struct str bytes; // of a text, as long as nothing that was good after it serves; p is its own
};

static void good_free(struct good *g)
{
    if (g != NULL) {
        free((void *)(uintptr_t)g->bytes.p);
        free(g);
    }
}

const char *past__good(const struct plugins *ps, const char *path)
{
    const struct good *g = map_get(&ps->good, str_of(path));
    return g != NULL ? g->hash : NULL;
}

bool past_good(const struct plugins *ps, const char *path, struct str *bytes)
{
    const struct good *g = map_get(&ps->good, str_of(path));
    *bytes = g != NULL ? g->bytes : STR_NULL;
    return bytes->p != NULL;
}

static void good_set(struct plugins *ps, struct str path, struct str hash)
{
    struct good *g = xcalloc(1, sizeof *g);
    snprintf(g->hash, sizeof g->hash, STR_FMT, STR_ARG(hash));
    good_free(map_set(&ps->good, path, g));
}

void past__good_write(struct plugins *ps, struct jw *w)
{
    struct str path;
    void *g;
    jw_obj(w);
    for (size_t at = 0; map_next(&ps->good, &at, &path, &g);) {
        jw_key_str(w, path);
        jw_strz(w, ((struct good *)g)->hash);
    }
    jw_end_obj(w);
}

void past__good_read(struct plugins *ps, const struct json *good)
{
    json_foreach_member (m, good) {
        if (m->value.type == JSON_STR && m->value.s.n == SHA256_HEX - 1) {
            good_set(ps, m->key, m->value.s);
        }
    }
}

// ---- keeping ------------------------------------------------------------------------------------

/// One version on its way to state/versions/.
struct keeping {
    struct content *content; // a plugin's; NULL: a text, which is `tree`
    struct tree tree;
    const char *versions; // of the plugins, which outlive the job
};

static void keep_work(void *arg)
{
    struct keeping *k = arg;
    const struct tree *t = k->content != NULL ? &k->content->tree : &k->tree;
    struct err e = {0};
    if (versions_put(k->versions, t, &e) < 0) {
        log_warn(LOG_HUB, "version=%s cannot be kept reason=%s", t->hash, LOGQ(str_of(e.msg)).z);
    }
}

static void keep_done(void *arg)
{
    struct keeping *k = arg;
    if (k->content != NULL) {
        content_unref(k->content);
    } else {
        tree_fini(&k->tree);
    }
    free(k);
}

static struct keeping *keeping_new(struct plugins *ps)
{
    struct keeping *k = xcalloc(1, sizeof *k);
    k->versions = ps->versions;
    return k;
}

void past__keep(struct plugins *ps, const struct loaded *v)
{
    struct keeping *k = keeping_new(ps);
    assert(v->unit != NULL);
    k->content = content_ref(v->content);
    work_submit(ps->keeper, 0, keep_work, keep_done, k);
    if (past__hold(ps, v->plugin->unit) == NULL) {
        good_set(ps, str_of(v->code.path), str_of(v->content->tree.hash));
    }
}

void past_keep(struct plugins *ps, const struct past_text *t)
{
    const struct good *had = map_get(&ps->good, str_of(t->path));
    bool kept = had != NULL && strcmp(had->hash, t->hash) == 0;
    if (kept && had->bytes.p == NULL) {
        return;
    }
    good_set(ps, str_of(t->path), str_of(t->hash));
    if (!kept) {
        struct keeping *k = keeping_new(ps);
        tree_of_file(&k->tree, path_base(str_of(t->path)).p, t->bytes);
        work_submit(ps->keeper, 0, keep_work, keep_done, k);
    }
}

// ---- fetching texts -----------------------------------------------------------------------------

struct past__fetch {
    struct plugins *ps;
    struct map texts; // hash to a struct tree
    past__fetched *done;
    void *arg;
};

struct past__fetch *past__fetch_new(struct plugins *ps)
{
    struct past__fetch *f = xcalloc(1, sizeof *f);
    f->ps = ps;
    return f;
}

void past__fetch_add(struct past__fetch *f, struct str hash)
{
    if (map_get(&f->texts, hash) == NULL) {
        map_set(&f->texts, hash, xcalloc(1, sizeof(struct tree)));
    }
}

static void fetch_work(void *arg)
{
    struct past__fetch *f = arg;
    struct str hash;
    void *t;
    for (size_t at = 0; map_next(&f->texts, &at, &hash, &t);) {
        char *name = str_dup(hash);
        struct err e = {0};
        if (versions_get(t, f->ps->versions, name, &e) < 0) {
            log_warn(LOG_HUB, "version=%s is not kept reason=%s", name, LOGQ(str_of(e.msg)).z);
        }
        free(name);
    }
}

static void fetch_done(void *arg)
{
    struct past__fetch *f = arg;
    struct str hash;
    void *t;
    f->done(f->ps, f, f->arg);
    for (size_t at = 0; map_next(&f->texts, &at, &hash, &t);) {
        tree_fini(t);
        free(t);
    }
    map_fini(&f->texts);
    free(f);
}

void past__fetch_run(struct past__fetch *f, past__fetched *done, void *arg)
{
    assert(f->done == NULL && done != NULL);
    f->done = done;
    f->arg = arg;
    work_submit(f->ps->keeper, 0, fetch_work, fetch_done, f);
}

bool past__fetch_get(const struct past__fetch *f, struct str hash, struct str *bytes)
{
    const struct tree *t = map_get(&f->texts, hash);
    bool found = t != NULL && t->files.n == 1;
    *bytes = found ? t->files.p[0].bytes : STR_NULL;
    return found;
}

static void texts_fetched(struct plugins *ps, struct past__fetch *f, void *arg)
{
    struct str path, bytes;
    void *p;
    (void)arg;
    for (size_t at = 0; map_next(&ps->good, &at, &path, &p);) {
        struct good *g = p;
        if (g->bytes.p == NULL && past__fetch_get(f, str_of(g->hash), &bytes)) {
            g->bytes = (struct str){str_dup(bytes), bytes.n};
        }
    }
    vec_foreach (h, &ps->holds) {
        if (past__fetch_get(f, str_of((*h)->of.hash), &bytes)) {
            (*h)->bytes = arena_str(&(*h)->arena, bytes);
        }
    }
    plugins__remembered(ps);
}

void past__fetch_texts(struct plugins *ps)
{
    struct past__fetch *f = past__fetch_new(ps);
    struct str path;
    void *g;
    for (size_t at = 0; map_next(&ps->good, &at, &path, &g);) {
        vec_foreach (m, &ps->members) {
            size_t n = strlen(m->dir);
            if (str_starts(path, m->dir) && path.n > n && path.p[n] == '/') {
                past__fetch_add(f, str_of(((struct good *)g)->hash));
            }
        }
    }
    vec_foreach (h, &ps->holds) {
        if (!(*h)->out && past__member(ps, (*h)->unit) != NULL) {
            past__fetch_add(f, str_of((*h)->of.hash));
        }
    }
    past__fetch_run(f, texts_fetched, NULL);
}

// ---- pruning ------------------------------------------------------------------------------------

struct pruning {
    struct plugins *ps; // outlives the job
    struct map keep;    // hashes; the values mean nothing
    char *home;
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
        versions_prune(pr->ps->versions, is_kept, pr, &e) < 0) {
        log_warn(LOG_HUB, "versions cannot be pruned reason=%s", LOGQ(str_of(e.msg)).z);
    }
    trust_close(pr->trust);
}

static void prune_done(void *arg)
{
    struct pruning *pr = arg;
    pr->ps->pruning = NULL;
    map_fini(&pr->keep);
    free(pr->home);
    free(pr);
}

static void prune(void *arg)
{
    struct plugins *ps = arg;
    struct str key;
    void *p;
    if (ps->pruning != NULL) {
        past__prune_soon(ps);
        return;
    }
    struct pruning *pr = xcalloc(1, sizeof *pr);
    pr->ps = ps;
    pr->home = xstrdup(ps->opts.hub->home->dir);
    vec_foreach (r, &ps->past) {
        json_foreach_member (m, json_get((*r)->json, "was")) {
            map_set(&pr->keep, json_get_text(&m->value, "hash"), pr);
        }
    }
    vec_foreach (h, &ps->holds) {
        map_set(&pr->keep, str_of((*h)->of.hash), pr);
    }
    for (size_t at = 0; map_next(&ps->now, &at, &key, &p);) {
        map_set(&pr->keep, str_of(((struct past__now *)p)->hash), pr);
    }
    for (size_t at = 0; map_next(&ps->good, &at, &key, &p);) {
        map_set(&pr->keep, str_of(((struct good *)p)->hash), pr);
    }
    ps->pruning = pr;
    work_submit(ps->keeper, 0, prune_work, prune_done, pr);
}

/// Pruning looks at everything that is kept: once for a burst of saves.
void past__prune_soon(struct plugins *ps)
{
    if (!timer_running(&ps->prune_timer)) {
        timer_init(&ps->prune_timer, ps->opts.hub->loop, prune, ps);
        timer_start(&ps->prune_timer, PRUNE_MS);
    }
}

void past__keep_free(struct plugins *ps)
{
    assert(ps->pruning == NULL); // the lane's last job is done
    timer_stop(&ps->prune_timer);
    map_fini_each(&ps->good, good_free);
}
