// What is on disk: the places where plugins are, each with its files.
//
//     loop: what to look at ──> worker: list roots, stamp, read what changed ──> loop: what was found
//
// There are three looks, by what is asked:
//
//     narrow    a run of the watcher, all of whose paths belong to known places: only these are stamped
//               and read, so that a save costs the same beside one plugin and beside a thousand
//     listing   a run of the watcher with other paths, or a place that went: the roots are listed too
//     whole     any other run: the roots are listed and every place is stamped
//
// A run of the watcher reads only what the watcher named, and takes the bytes that the watcher read, because only the
// watcher knows that a file is complete. An unchanged stamp spares reading: a hundred plugins that did not change cost
// a few hundred stats.
//
// A version's inputs are its code, manifest, prompt, skills and sides (content.c), and what it read while
// it loaded (inputs.c). A place whose other files change keeps the content that it has.
//
// Invariants:
//   - one look is under way at a time; the worker touches nothing but its own `struct look`.
//   - something is `found` for each path that a place names, and for no other.
//   - what cannot be read is not gone: a root that cannot be listed keeps the places it had, and a plugin
//     whose manifest cannot be read the name under which it serves.

#include <assert.h>

#include "base/log.h"
#include "base/path.h"
#include "base/time.h"
#include "config/config.h"
#include "config/home.h"
#include "plugin/plugins_int.h"
#include "store/choices.h"

/// What is known of a path, and then what was found there.
struct reading {
    char *path;
    bool built;
    bool known, looked; // known: it was found before. looked: it was read
    bool built_before;
    uint64_t stamp_before, stamp;
    struct content *content;
    struct gen_diag fault;
};

/// What a look knows of a path.
struct known {
    bool there;       // it was found before, or is now
    bool read_before; // a place named it before in this look
    bool built;
    uint64_t stamp;
};

struct look {
    struct plugins *ps;
    enum { LOOK_NARROW, LOOK_LISTING, LOOK_WHOLE } kind;
    bool force;
    vec(struct dirty_file) dirty;
    vec(struct reading) readings;    // one for each place that is looked at
    vec(struct plugin_input) inputs; // what plugins read, with the mark that it has now
    // unless it is narrow
    vec(struct plugin_root) roots;
    vec(size_t) unread; // roots that could not be listed
    struct plugin_places places;
    struct map known; // struct known by path
    struct err error;
};

// ---- on the worker ----------------------------------------------------------------------------

bool look__is_beneath(const char *path, const char *dir)
{
    return path != NULL && path_below(dir, path) != NULL;
}

static void read_path(struct look *lk, struct reading *g)
{
    bool dirty = lk->kind != LOOK_LISTING;
    for (size_t i = 0; i < lk->dirty.n && !dirty; i++) {
        dirty = look__is_beneath(lk->dirty.p[i].path, g->path);
    }
    g->stamp = dirty ? content_stamp(g->path) : g->stamp_before;
    g->looked = dirty && (!g->known || lk->force || g->stamp != g->stamp_before ||
                          g->built != g->built_before);
    if (g->looked) {
        bool older = false;
        size_t n = lk->kind == LOOK_WHOLE ? 0 : lk->dirty.n; // a request means what is there now
        g->content = content_read(g->path, g->built, lk->dirty.p, n, &older, &g->fault);
        g->stamp = older ? ~g->stamp : g->stamp; // the disk has more: look again
    }
}

/// Two places may name one path: how the first wants it read counts.
static void work(void *arg)
{
    struct look *lk = arg;
    for (size_t i = 0; i < lk->roots.n; i++) {
        if (places_scan(&lk->places, &lk->roots.p[i], &lk->error) < 0) {
            vec_push(&lk->unread, i);
        }
    }
    vec_foreach (g, &lk->readings) { // of a narrow look; the others read each place
        read_path(lk, g);
    }
    vec_foreach (p, &lk->places.list) {
        struct known *k = map_get(&lk->known, str_of(p->path));
        if (k == NULL) {
            k = xcalloc(1, sizeof *k);
            map_set(&lk->known, str_of(p->path), k);
        }
        struct reading g = {.path = xstrdup(p->path),
                            .built = k->read_before ? k->built : p->hot == HOT_NO,
                            .known = k->there,
                            .built_before = k->built,
                            .stamp_before = k->stamp};
        read_path(lk, &g);
        *k = (struct known){
            .there = k->there || g.looked, .read_before = true, .built = g.built, .stamp = g.stamp};
        vec_push(&lk->readings, g);
    }
    vec_foreach (it, &lk->inputs) {
        it->mark = plugin_input_mark(it->path);
    }
}

// ---- back on the loop -------------------------------------------------------------------------

struct found *look__found(const struct plugins *ps, const char *path)
{
    return map_get(&ps->found, str_of(path));
}

const char *look__hash(const struct plugin *p)
{
    const struct found *s = p != NULL ? p->found : NULL;
    return s != NULL && s->content != NULL ? s->content->tree.hash : "";
}

static void found_free(struct found *s)
{
    content_unref(s->content);
    gen_diag_fini(&s->fault);
    free(s->path);
    free(s);
}

/// Take over what was found at a path. A content whose inputs are those that we have is not a new one.
static void take_reading(struct plugins *ps, struct reading *g, bool force)
{
    struct found *s = look__found(ps, g->path);
    assert(g->looked);
    if (s == NULL) {
        s = xcalloc(1, sizeof *s);
        s->path = xstrdup(g->path);
        map_set(&ps->found, str_of(s->path), s);
    }
    bool same = s->content != NULL && g->content != NULL &&
                (force ? strcmp(s->content->tree.hash, g->content->tree.hash) == 0 &&
                             s->content->built == g->built
                       : content_same(s->content, g->content));
    if (!same) {
        content_unref(s->content);
        s->content = g->content;
        s->seen_at = time_wall_ms();
        g->content = NULL;
    }
    s->built = g->built;
    s->stamp = s->content == NULL && g->stamp != 0 ? ~g->stamp : g->stamp; // unread: look again
    gen_diag_fini(&s->fault);
    s->fault = g->fault;
    g->fault = (struct gen_diag){0};
}

/// The name that the manifest says, else the file's; NULL when nothing is there. What is not sound keeps the
/// name under which something of this path serves. The caller frees it.
static char *name_at(const struct plugins *ps, const struct found *s)
{
    if (s == NULL || (s->content == NULL && s->stamp == 0)) {
        return NULL;
    }
    vec_foreach (p, &ps->plugins) {
        const struct loaded *v = (*p)->serving;
        if (v != NULL && (s->content == NULL || !s->content->sound) &&
            strcmp(v->code.path, s->path) == 0) {
            return xstrdup(v->code.name);
        }
    }
    if (s->content != NULL && s->content->shape.name != NULL) {
        return xstrdup(s->content->shape.name);
    }
    struct str base = path_base(str_of(s->path));
    ptrdiff_t dot = str_index(base, '.');
    return str_dup((struct str){base.p, dot > 0 ? (size_t)dot : base.n});
}

/// Let go of the entries: they, and the places that they borrow from, are about to change.
static void drop_entries(struct plugins *ps)
{
    vec_foreach (p, &ps->plugins) {
        (*p)->entry = NULL; // until it meets the new ones, which a hub that stops never makes
        (*p)->found = NULL;
    }
    entries_fini(&ps->entries);
    ps->relisted = ps->rewatch = true;
}

/// The places know their names from here on; what was found where no place is any more goes.
static void name_places(struct plugins *ps)
{
    struct str path;
    void *value;
    vec_foreach (p, &ps->places.list) {
        struct found *s = look__found(ps, p->path);
        char *name = name_at(ps, s);
        if (name != NULL) {
            free(p->name); // a line may have named it
            p->name = xstrdup(p->called != NULL ? p->called : name);
            free(name);
        }
        if (s != NULL) {
            s->named = true;
        }
    }
    for (size_t at = 0; map_next(&ps->found, &at, &path, &value);) {
        struct found *s = value;
        if (!s->named) {
            map_remove(&ps->found, path);
            found_free(s);
        } else {
            s->named = false;
        }
    }
}

static void readings_free(struct look *lk)
{
    vec_foreach (g, &lk->readings) {
        content_unref(g->content);
        gen_diag_fini(&g->fault);
        free(g->path);
    }
    lk->readings.n = 0;
}

static void dirty_free(struct dirty_file d)
{
    free(d.path);
    free(d.bytes);
}

static void look_free(struct look *lk)
{
    look__roots_free(lk->roots.p, lk->roots.n);
    vec_fini_each(&lk->dirty, dirty_free);
    readings_free(lk);
    vec_foreach (it, &lk->inputs) {
        free(it->path);
    }
    places_fini(&lk->places);
    map_fini_each(&lk->known, free);
    vec_fini(&lk->roots);
    vec_fini(&lk->unread);
    vec_fini(&lk->inputs);
    vec_fini(&lk->readings);
    free(lk);
}

static void done_listing(struct look *lk)
{
    struct plugins *ps = lk->ps;
    vec_foreach (i, &lk->unread) { // the places that such a root had go over to the new look
        for (size_t k = 0; k < ps->places.list.n;) {
            struct plugin_place *p = &ps->places.list.p[k];
            struct str dir = path_dir(str_of(p->path));
            if (strcmp(p->source, "discovered") != 0 || !str_eqz(dir, lk->roots.p[*i].dir)) {
                k++;
                continue;
            }
            vec_push(&lk->places.list, *p);
            vec_push(&lk->readings, ((struct reading){.path = xstrdup(p->path), .known = true}));
            vec_remove(&ps->places.list, k);
        }
    }
    if (lk->unread.n != 0) {
        log_warn(LOG_HUB, "plugins reason=%s", LOGQ(str_of(lk->error.msg)).z);
        ps->all_dirty = true; // the next run looks again
    }
    assert(lk->readings.n == lk->places.list.n);
    vec_foreach (g, &lk->readings) {
        if (g->looked) {
            take_reading(ps, g, lk->force);
        }
    }
    // a file that the watcher has not called whole yet is no place yet
    for (size_t i = lk->places.list.n; i-- > 0;) {
        if (!lk->readings.p[i].known && !lk->readings.p[i].looked) {
            place_fini(&lk->places.list.p[i]);
            vec_remove(&lk->places.list, i);
        }
    }
    drop_entries(ps);
    places_fini(&ps->places);
    ps->places = lk->places;
    lk->places = (struct plugin_places){0};
    name_places(ps);
}

/// Mark the plugins at that path. Has each of them the name that its files say now? Whether a project's may have
/// it depends on trust in what is there.
static bool mark_looked(struct plugins *ps, const struct found *s)
{
    char *name = name_at(ps, s);
    bool any = false, right = name != NULL;
    vec_foreach (it, &ps->plugins) {
        struct plugin *p = *it;
        if (p->found == s) {
            const struct plugin_place *at = p->entry->place;
            p->looked = any = true;
            right = right && at->project == NULL && at->name != NULL &&
                    (at->called != NULL || strcmp(name, at->name) == 0);
        }
    }
    free(name);
    return any && right; // without a plugin, another place of that name keeps it out
}

static void done(void *arg)
{
    struct look *lk = arg;
    struct plugins *ps = lk->ps;
    bool gone = false, named = true;
    vec_foreach (g, &lk->readings) {
        gone = gone || (g->stamp == 0 && g->stamp_before != 0);
    }
    if (lk->kind == LOOK_NARROW && gone && !ps->stopped) { // another place may take its name now
        vec_foreach (d, &lk->dirty) {
            vec_push(&ps->dirty, *d);
        }
        lk->dirty.n = 0;
        look_free(lk);
        ps->list_roots = true;
        look__begin(ps);
        return;
    }
    if (lk->kind != LOOK_NARROW) {
        done_listing(lk);
    } else {
        vec_foreach (g, &lk->readings) {
            if (g->looked) {
                take_reading(ps, g, lk->force);
                named = mark_looked(ps, look__found(ps, g->path)) && named;
            }
        }
    }
    if (!named) { // else the entries stay as they are
        drop_entries(ps);
        name_places(ps);
    }
    vec_foreach (it, &lk->inputs) { // a plugin loads again if a file changed that it read
        vec_foreach (p, &ps->plugins) {
            vec_foreach (in, &(*p)->inputs.list) {
                if (strcmp(in->path, it->path) == 0 && in->mark != it->mark && !in->own) {
                    (*p)->stale = (*p)->looked = true;
                }
            }
        }
    }
    look_free(lk);
    plugins__decide(ps);
}

const struct config *look__project_config(const struct plugins *ps, const struct project *pr)
{
    const struct plugins_opts *o = &ps->opts;
    return o->project_config != NULL ? o->project_config(o->project_arg, pr->place.root) : NULL;
}

/// Look at what plugins read, if it is `path`; all of it when that is NULL.
static bool aim_at_inputs(struct look *lk, const char *path)
{
    bool any = false;
    vec_foreach (p, &lk->ps->plugins) {
        vec_foreach (in, &(*p)->inputs.list) {
            // what was read may be a directory, in which a name came or went
            if (path == NULL || strcmp(in->path, path) == 0 ||
                str_eqz(path_dir(str_of(path)), in->path)) {
                vec_push(&lk->inputs, ((struct plugin_input){.path = xstrdup(in->path)}));
                any = true;
            }
        }
    }
    return any;
}

/// Look at the places of the dirty paths only. False: a path belongs to no known place.
static bool aim(struct look *lk)
{
    bool known = true;
    vec_foreach (d, &lk->dirty) {
        struct found *s = NULL; // of the place that the path belongs to
        for (struct str p = str_of(d->path); p.n > 1 && s == NULL; p = path_dir(p)) {
            s = map_get(&lk->ps->found, p);
        }
        bool fine = aim_at_inputs(lk, d->path) || s != NULL, aimed = s == NULL;
        vec_foreach (r, &lk->ps->roots) { // editors write to hidden names first
            fine = fine || (str_eqz(path_dir(str_of(d->path)), r->dir) &&
                            str_starts(path_base(str_of(d->path)), "."));
        }
        known = known && fine;
        vec_foreach (g, &lk->readings) {
            aimed = aimed || strcmp(g->path, s->path) == 0;
        }
        if (!aimed) {
            struct reading g = {.path = xstrdup(s->path),
                                .built = s->built,
                                .known = true,
                                .built_before = s->built,
                                .stamp_before = s->stamp};
            vec_push(&lk->readings, g);
        }
    }
    return known;
}

/// Look at the roots, and at all that the settings and code name. The worker is told what was found before.
static void aim_wide(struct look *lk, bool everything)
{
    struct plugins *ps = lk->ps;
    struct str path;
    void *value;
    lk->kind = everything ? LOOK_WHOLE : LOOK_LISTING;
    ps->all_dirty = ps->list_roots = false;
    places_configured(&lk->places, ps->opts.hub->config->now, choices_all(ps->opts.hub->choices),
                      ps->opts.shipped_dir);
    vec_foreach (pr, &ps->projects) {
        const struct config *c = look__project_config(ps, pr);
        if (c != NULL) {
            places_of_project(&lk->places, c, pr->slug, ps->opts.shipped_dir);
        }
    }
    vec_foreach (p, &ps->installed.list) {
        struct plugin_place copy = *p;
        copy.path = xstrdup(p->path);
        copy.said_path = NULL;
        copy.called = p->called != NULL ? xstrdup(p->called) : NULL;
        copy.options = json_clone(&lk->places.arena, p->options);
        vec_push(&lk->places.list, copy);
    }
    vec_foreach (r, &ps->roots) {
        vec_push(&lk->roots, look__root(r->dir, r->layer, r->project, r->slug));
    }
    for (size_t at = 0; map_next(&ps->found, &at, &path, &value);) {
        const struct found *s = value;
        struct known *k = xcalloc(1, sizeof *k);
        *k = (struct known){.there = true, .built = s->built, .stamp = s->stamp};
        map_set(&lk->known, path, k);
    }
    if (everything) {
        aim_at_inputs(lk, NULL);
    }
}

void look__begin(struct plugins *ps)
{
    bool everything = ps->all_dirty || !ps->watch_run;
    assert(ps->preparing);
    if (!everything && !ps->list_roots && ps->dirty.n == 0) { // a run of another source
        plugins__decide(ps);
        return;
    }
    struct look *lk = xcalloc(1, sizeof *lk);
    lk->ps = ps;
    lk->kind = LOOK_NARROW;
    lk->force = ps->force;
    vec_foreach (d, &ps->dirty) {
        vec_push(&lk->dirty, *d);
    }
    ps->dirty.n = 0;
    if (!aim(lk) || everything || ps->list_roots) {
        readings_free(lk);
        aim_wide(lk, everything);
    }
    work_submit(ps->lane, 0, work, done, lk);
}

void look__free(struct plugins *ps)
{
    look__unwatch(ps);
    vec_fini_each(&ps->dirty, dirty_free);
    entries_fini(&ps->entries);
    places_fini(&ps->places);
    map_fini_each(&ps->found, found_free);
}
