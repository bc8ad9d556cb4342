// What lies on disk: the roots' places, each with its files.
//
//     loop: what to look at ──> worker: list roots, stamp, read what moved ──> loop: slots
//
// A run of the watcher looks only at what the watcher named, because it alone knows that a file is
// whole; everybody else who asks gets a look at everything. Reading goes by stamp first, so that a
// hundred plugins that did not change cost a few hundred stats.
//
// Invariants:
//   - one look is under way at a time; the worker touches nothing but its own `struct look`.
//   - a slot is forgotten when no place names its path any more.
//   - what cannot be read is not gone: a root that cannot be listed keeps the places it had, and a plugin
//     whose manifest cannot be read the name under which it serves.

#include "base/log.h"
#include "base/path.h"
#include "base/time.h"
#include "config/config.h"
#include "config/home.h"
#include "plugin/plugins_int.h"
#include "store/choices.h"

/// What is known of a path, and then what was found there.
struct glance {
    char *path;
    bool built, known, looked;
    uint64_t stamp;
    struct content *content;
    struct gen_diag fault;
};

struct look {
    struct plugins *ps;
    vec(struct plugin_root) roots;
    vec(size_t) unread; // roots that could not be listed
    struct plugin_places places;
    vec(char *) dirty;
    bool everything, force;
    struct map known;           // path to its stamp's place in `stamps`
    vec(uint64_t) stamps;       // 1 + index is what `known` holds
    vec(struct glance) glances; // one for each place
    struct err error;
};

// ---- on the worker ----------------------------------------------------------------------------

bool look__is_beneath(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return path != NULL && strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_dirty(struct look *lk, const char *path)
{
    if (lk->everything) {
        return true;
    }
    vec_foreach (d, &lk->dirty) {
        if (look__is_beneath(*d, path)) {
            return true;
        }
    }
    return false;
}

static void glance_at(struct look *lk, struct glance *g)
{
    uintptr_t known = (uintptr_t)map_get(&lk->known, str_of(g->path));
    uint64_t before = known != 0 ? lk->stamps.p[known - 1] : 0;
    g->known = known != 0;
    if (!is_dirty(lk, g->path)) {
        return;
    }
    g->stamp = content_stamp(g->path);
    g->looked = !g->known || lk->force || g->stamp != before;
    if (g->looked) {
        g->content = content_read(g->path, g->built, &g->fault);
    }
}

static void work(void *arg)
{
    struct look *lk = arg;
    for (size_t i = 0; i < lk->roots.n; i++) {
        if (places_scan(&lk->places, &lk->roots.p[i], &lk->error) < 0) {
            vec_push(&lk->unread, i);
        }
    }
    vec_foreach (p, &lk->places.list) {
        struct glance g = {.path = p->path, .built = p->hot == HOT_NO};
        glance_at(lk, &g);
        vec_push(&lk->glances, g);
    }
}

// ---- back on the loop -------------------------------------------------------------------------

struct slot *look__slot(const struct plugins *ps, const char *path)
{
    for (size_t i = 0; i < ps->slots.n; i++) {
        if (strcmp(ps->slots.p[i]->path, path) == 0) {
            return ps->slots.p[i];
        }
    }
    return NULL;
}

const char *look__hash(const struct plugins *ps, const struct plug *p)
{
    const struct slot *s =
        p != NULL && p->entry != NULL ? look__slot(ps, p->entry->place->path) : NULL;
    return s != NULL && s->content != NULL ? s->content->tree.hash : "";
}

static void slot_free(struct slot *s)
{
    content_unref(s->content);
    gen_diag_fini(&s->fault);
    free(s->path);
    free(s);
}

/// Take over what was found at a path. Content of the same hash is the content we have.
static void take_glance(struct plugins *ps, struct glance *g)
{
    struct slot *s = look__slot(ps, g->path);
    if (s == NULL) {
        s = xcalloc(1, sizeof *s);
        s->path = xstrdup(g->path);
        vec_push(&ps->slots, s);
    }
    bool same = s->content != NULL && g->content != NULL && s->content->built == g->built &&
                strcmp(s->content->tree.hash, g->content->tree.hash) == 0;
    if (!same) {
        content_unref(s->content);
        s->content = g->content;
        s->seen_at = time_wall_ms();
        g->content = NULL;
    }
    s->stamp = s->content == NULL && g->stamp != 0 ? ~g->stamp : g->stamp; // unread: look again
    gen_diag_fini(&s->fault);
    s->fault = g->fault;
    g->fault = (struct gen_diag){0};
}

/// The name under which something of this path serves; NULL when nothing does.
static const char *served_name(const struct plugins *ps, const char *path)
{
    for (size_t i = 0; i < ps->plugs.n; i++) {
        const struct loaded *v = ps->plugs.p[i]->serving;
        if (v != NULL && strcmp(v->code.path, path) == 0) {
            return v->code.name;
        }
    }
    return NULL;
}

/// The name that the manifest says, else the file's; the places know it from here on.
static void name_places(struct plugins *ps)
{
    vec_foreach (p, &ps->places.list) {
        const struct slot *s = look__slot(ps, p->path);
        if (s == NULL || (s->content == NULL && s->stamp == 0)) {
            continue;
        }
        bool sound = s->content != NULL && s->content->sound;
        const char *name = sound ? NULL : served_name(ps, p->path);
        if (name == NULL && s->content != NULL) {
            name = s->content->shape.name;
        }
        struct str base = path_base(str_of(p->path));
        ptrdiff_t dot = str_index(base, '.');
        struct str stem = {base.p, dot > 0 ? (size_t)dot : base.n};
        free(p->name); // a line may have named it
        p->name = name != NULL ? xstrdup(name) : str_dup(stem);
    }
}

static bool has_place(const struct plugins *ps, const char *path)
{
    for (size_t i = 0; i < ps->places.list.n; i++) {
        if (strcmp(ps->places.list.p[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

static void forget_slots(struct plugins *ps)
{
    for (size_t i = ps->slots.n; i-- > 0;) {
        if (!has_place(ps, ps->slots.p[i]->path)) {
            slot_free(ps->slots.p[i]);
            vec_remove(&ps->slots, i);
        }
    }
}

static void look_free(struct look *lk)
{
    vec_foreach (r, &lk->roots) {
        free(r->dir);
        free(r->project);
        free(r->slug);
    }
    vec_foreach (d, &lk->dirty) {
        free(*d);
    }
    vec_foreach (g, &lk->glances) {
        content_unref(g->content);
        gen_diag_fini(&g->fault);
    }
    places_fini(&lk->places);
    map_fini(&lk->known);
    vec_fini(&lk->roots);
    vec_fini(&lk->unread);
    vec_fini(&lk->dirty);
    vec_fini(&lk->stamps);
    vec_fini(&lk->glances);
    free(lk);
}

/// A file that the watcher has not called whole yet is no place yet.
static void drop_unseen(struct look *lk)
{
    for (size_t i = lk->places.list.n; i-- > 0;) {
        if (!lk->glances.p[i].known && !lk->glances.p[i].looked) {
            struct plugin_place *p = &lk->places.list.p[i];
            free(p->path);
            free(p->project);
            free(p->slug);
            free(p->said_path);
            free(p->name);
            vec_remove(&lk->places.list, i);
        }
    }
}

/// The places that a root had go over to the new look.
static void keep_places(struct look *lk, const struct plugin_root *root)
{
    struct plugin_places *before = &lk->ps->places;
    for (size_t i = 0; i < before->list.n;) {
        struct plugin_place *p = &before->list.p[i];
        struct str dir = path_dir(str_of(p->path));
        if (strcmp(p->source, "discovered") != 0 || !str_eqz(dir, root->dir)) {
            i++;
            continue;
        }
        vec_push(&lk->places.list, *p);
        vec_push(&lk->glances, ((struct glance){.path = p->path, .known = true}));
        vec_remove(&before->list, i);
    }
}

static void keep_unread(struct look *lk)
{
    vec_foreach (i, &lk->unread) {
        keep_places(lk, &lk->roots.p[*i]);
    }
    if (lk->unread.n != 0) {
        log_warn(LOG_HUB, "plugins reason=%s", LOGQ(str_of(lk->error.msg)).z);
        lk->ps->all_dirty = true; // whoever runs next looks again
    }
}

static void done(void *arg)
{
    struct look *lk = arg;
    struct plugins *ps = lk->ps;
    keep_unread(lk);
    vec_foreach (g, &lk->glances) {
        if (g->looked) {
            take_glance(ps, g);
        }
    }
    drop_unseen(lk);
    vec_foreach (p, &ps->plugs) {
        (*p)->entry = NULL; // until they meet the new ones, which a hub that stops never makes
    }
    entries_fini(&ps->entries);
    places_fini(&ps->places);
    ps->places = lk->places;
    places_init(&lk->places);
    name_places(ps);
    forget_slots(ps);
    look_free(lk);
    plugins__looked(ps);
}

static void copy_roots(struct look *lk)
{
    vec_foreach (r, &lk->ps->roots) {
        struct plugin_root copy = {
            .dir = xstrdup(r->dir),
            .layer = r->layer,
            .project = r->project != NULL ? xstrdup(r->project) : NULL,
            .slug = r->slug != NULL ? xstrdup(r->slug) : NULL,
        };
        vec_push(&lk->roots, copy);
    }
}

static void places_copy(struct plugin_places *to, const struct plugin_places *from)
{
    vec_foreach (p, &from->list) {
        struct plugin_place copy = *p;
        copy.path = xstrdup(p->path);
        copy.said_path = NULL;
        copy.options = json_clone(&to->arena, p->options);
        vec_push(&to->list, copy);
    }
}

/// The settings with those that a project brings; NULL: it brings none.
static const struct config *project_config(const struct plugins *ps, const struct project *pr)
{
    const struct plugins_opts *o = &ps->opts;
    return o->project_config != NULL ? o->project_config(o->project_arg, pr->place.root) : NULL;
}

static void add_projects_lines(struct look *lk)
{
    struct plugins *ps = lk->ps;
    vec_foreach (pr, &ps->projects) {
        const struct config *c = project_config(ps, pr);
        if (c != NULL) {
            places_of_project(&lk->places, c, pr->slug, ps->opts.shipped_dir);
        }
    }
}

void look__begin(struct plugins *ps)
{
    struct look *lk = xcalloc(1, sizeof *lk);
    lk->ps = ps;
    lk->everything = ps->all_dirty || !ps->watch_run;
    lk->force = ps->force;
    places_init(&lk->places);
    map_init(&lk->known);
    places_configured(&lk->places, ps->opts.config, choices_all(ps->opts.choices),
                      ps->opts.shipped_dir);
    add_projects_lines(lk);
    places_copy(&lk->places, &ps->installed);
    copy_roots(lk);
    vec_foreach (d, &ps->dirty) {
        vec_push(&lk->dirty, *d);
    }
    ps->dirty.n = 0;
    ps->all_dirty = false;
    vec_foreach (s, &ps->slots) {
        vec_push(&lk->stamps, (*s)->stamp);
        map_set(&lk->known, str_of((*s)->path), (void *)lk->stamps.n); // never NULL: 1 + index
    }
    work_submit(ps->lane, 0, work, done, lk);
}

// ---- kept versions ----------------------------------------------------------------------------

struct fetch {
    struct plugins *ps;
    char *versions;
    vec(struct glance) wanted; // `path` where it came from
    vec(char *) hashes;
};

static void fetch_work(void *arg)
{
    struct fetch *f = arg;
    for (size_t i = 0; i < f->wanted.n; i++) {
        struct glance *g = &f->wanted.p[i];
        g->content = content_fetch(f->versions, f->hashes.p[i], g->path, false);
    }
}

static void fetch_done(void *arg)
{
    struct fetch *f = arg;
    struct plugins *ps = f->ps;
    for (size_t i = 0; i < f->wanted.n; i++) {
        struct glance *g = &f->wanted.p[i];
        if (g->content != NULL) {
            vec_push(&ps->fetched, g->content);
        } else {
            log_warn(LOG_HUB, "version=%s is not kept any more", f->hashes.p[i]);
        }
        free(g->path);
        free(f->hashes.p[i]);
    }
    vec_fini(&f->wanted);
    vec_fini(&f->hashes);
    free(f->versions);
    free(f);
    plugins__fetched(ps);
}

void look__fetch(struct plugins *ps, const struct past_unit *list, size_t n)
{
    struct fetch *f = xcalloc(1, sizeof *f);
    f->ps = ps;
    f->versions = xstrdup(ps->versions);
    for (size_t i = 0; i < n; i++) {
        vec_push(&f->wanted, ((struct glance){.path = xstrdup(list[i].path)}));
        vec_push(&f->hashes, xstrdup(list[i].hash));
    }
    work_submit(ps->keeper, 0, fetch_work, fetch_done, f);
}

// ---- roots and watches ------------------------------------------------------------------------

static void add_root(struct plugins *ps, const char *base, const char *sub, enum plugin_layer layer,
                     const struct project *pr)
{
    char *dir = path_join(base, sub);
    struct plugin_root r = {
        .dir = path_clean(dir),
        .layer = layer,
        .project = pr != NULL ? xstrdup(pr->place.root) : NULL,
        .slug = pr != NULL ? xstrdup(pr->slug) : NULL,
    };
    vec_push(&ps->roots, r);
    free(dir);
}

static void add_layer_roots(struct plugins *ps, const char *base, const struct project *pr)
{
    const struct config *own = pr != NULL ? project_config(ps, pr) : NULL;
    const struct config *c = own != NULL ? own : ps->opts.config;
    char *profile = xasprintf("profiles/%s/plugins", config_str(c, "profile"));
    add_root(ps, base, "plugins", pr != NULL ? LAYER_REPO : LAYER_USER, pr);
    add_root(ps, base, "shared/plugins", pr != NULL ? LAYER_REPO : LAYER_USER, pr);
    add_root(ps, base, profile, pr != NULL ? LAYER_REPO_PROFILE : LAYER_USER_PROFILE, pr);
    free(profile);
}

static void roots_free(struct plugins *ps)
{
    vec_foreach (r, &ps->roots) {
        free(r->dir);
        free(r->project);
        free(r->slug);
    }
    ps->roots.n = 0;
}

void look__roots(struct plugins *ps)
{
    roots_free(ps);
    add_layer_roots(ps, ps->opts.home->dir, NULL);
    vec_foreach (pr, &ps->projects) {
        char *base = path_join(pr->place.root, ".afloat");
        add_layer_roots(ps, base, pr);
        free(base);
    }
    look__watch(ps);
}

/// The inventory counts too: what came between the last look and the beginning of the watch is in it.
static void on_watch(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct plugins *ps = arg;
    (void)w;
    for (size_t i = 0; i < batch->n; i++) {
        vec_push(&ps->dirty, xstrdup(batch->changes[i].path));
    }
    if (batch->n != 0) {
        plugins__ask(ps, "watch");
    }
}

static bool is_watched(const struct plugins *ps, const char *path)
{
    for (size_t i = 0; i < ps->watched.n; i++) {
        if (look__is_beneath(path, ps->watched.p[i])) {
            return true;
        }
    }
    return false;
}

/// Watch a root, or a place outside of the roots: a directory with all below it, a file by its name.
static void watch_path(struct plugins *ps, const char *path, bool is_file)
{
    const struct config *c = ps->opts.config;
    char *dir = is_file ? str_dup(path_dir(str_of(path))) : xstrdup(path);
    char *pattern = is_file ? str_dup(path_base(str_of(path))) : NULL;
    struct watch_opts o = {
        .path = dir,
        .pattern = pattern,
        .recursive = !is_file,
        .debounce_ms = (unsigned)config_int(c, "watch.debounce_ms"),
        .poll_ms = (unsigned)config_int(c, "watch.poll_ms"),
        .poll = config_bool(c, "watch.poll"),
    };
    struct watch *w = NULL;
    struct err e = {0};
    if (watch_open(&w, ps->opts.watcher, &o, on_watch, ps, &e) == 0) {
        vec_push(&ps->watches, w);
        vec_push(&ps->watched, xstrdup(path));
    } else {
        log_warn(LOG_HUB, "watch=%s reason=%s", path, LOGQ(str_of(e.msg)).z);
    }
    free(dir);
    free(pattern);
}

static bool is_needed(const struct plugins *ps, const char *path)
{
    for (size_t i = 0; i < ps->roots.n; i++) {
        if (strcmp(ps->roots.p[i].dir, path) == 0) {
            return true;
        }
    }
    return has_place(ps, path);
}

static void close_watch(struct plugins *ps, size_t i)
{
    watch_close(ps->watches.p[i]);
    free(ps->watched.p[i]);
    vec_remove(&ps->watches, i);
    vec_remove(&ps->watched, i);
}

void look__watch(struct plugins *ps)
{
    if (ps->opts.watcher == NULL || ps->stopped) {
        return;
    }
    for (size_t i = ps->watches.n; i-- > 0;) {
        if (!is_needed(ps, ps->watched.p[i])) {
            close_watch(ps, i);
        }
    }
    vec_foreach (r, &ps->roots) {
        if (!is_watched(ps, r->dir)) {
            watch_path(ps, r->dir, false);
        }
    }
    vec_foreach (p, &ps->places.list) {
        if (p->hot == HOT_YES && !is_watched(ps, p->path)) {
            const struct slot *s = look__slot(ps, p->path);
            watch_path(ps, p->path, s != NULL && s->content != NULL && s->content->tree.is_file);
        }
    }
}

void look__free(struct plugins *ps)
{
    for (size_t i = ps->watches.n; i-- > 0;) {
        close_watch(ps, i);
    }
    vec_foreach (s, &ps->slots) {
        slot_free(*s);
    }
    vec_foreach (d, &ps->dirty) {
        free(*d);
    }
    roots_free(ps);
    entries_fini(&ps->entries);
    places_fini(&ps->places);
    vec_fini(&ps->roots);
    vec_fini(&ps->slots);
    vec_fini(&ps->dirty);
    vec_fini(&ps->watches);
    vec_fini(&ps->watched);
}
