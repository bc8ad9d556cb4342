// Where plugins are looked for, and what is watched there.
//
//     the user's home ┐
//     each project    ┴── plugins/, shared/plugins/, profiles/P/plugins/ ──> roots, each watched whole
//     configured places outside of the roots, hot ones only ──> a watch each
//
// A watch gives files as it read them; look.c finds out what they mean. What plugins read while they loaded is watched
// too, where it is outside of all this.

#include "base/log.h"
#include "base/path.h"
#include "config/config.h"
#include "config/home.h"
#include "plugin/plugins_int.h"

enum { FILE_BYTES = 1 << 20 }; // code is never larger; other files are read where they are

struct plugin_root look__root(const char *dir, enum plugin_layer layer, const char *project,
                              const char *slug)
{
    return (struct plugin_root){
        .dir = path_clean(dir),
        .layer = layer,
        .project = project != NULL ? xstrdup(project) : NULL,
        .slug = slug != NULL ? xstrdup(slug) : NULL,
    };
}

void look__roots_free(struct plugin_root *roots, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(roots[i].dir);
        free(roots[i].project);
        free(roots[i].slug);
    }
}

static void add_roots(struct plugins *ps, const char *base, const struct project *pr)
{
    const struct config *own = pr != NULL ? look__project_config(ps, pr) : NULL;
    const struct config *c = own != NULL ? own : ps->opts.hub->config->now;
    char *profile = xasprintf("profiles/%s/plugins", config_str(c, "profile"));
    const struct {
        const char *sub;
        enum plugin_layer users, projects;
    } all[] = {{"plugins", LAYER_USER, LAYER_REPO},
               {"shared/plugins", LAYER_USER, LAYER_REPO},
               {profile, LAYER_USER_PROFILE, LAYER_REPO_PROFILE}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        char *dir = path_join(base, all[i].sub);
        vec_push(&ps->roots, pr == NULL
                                 ? look__root(dir, all[i].users, NULL, NULL)
                                 : look__root(dir, all[i].projects, pr->place.root, pr->slug));
        free(dir);
    }
    free(profile);
}

void look__roots(struct plugins *ps)
{
    look__roots_free(ps->roots.p, ps->roots.n);
    ps->roots.n = 0;
    add_roots(ps, ps->opts.hub->home->dir, NULL);
    vec_foreach (pr, &ps->projects) {
        char *base = path_join(pr->place.root, ".afloat");
        add_roots(ps, base, pr);
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
        const struct watch_change *c = &batch->changes[i];
        bool kept = c->bytes.p != NULL && !batch->first; // the first may list a thousand plugins
        struct dirty_file d = {.path = xstrdup(c->path),
                               .bytes = kept ? str_dup(c->bytes) : NULL,
                               .n = kept ? c->bytes.n : 0};
        vec_push(&ps->dirty, d);
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
    char *dir = is_file ? str_dup(path_dir(str_of(path))) : xstrdup(path);
    char *pattern = is_file ? str_dup(path_base(str_of(path))) : NULL;
    struct watch_opts o = {
        .path = dir,
        .pattern = pattern,
        .recursive = !is_file,
        .want_bytes = true,
        .bytes_max = FILE_BYTES,
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
        const char *path = ps->watched.p[i];
        bool needed = look__found(ps, path) != NULL;
        vec_foreach (r, &ps->roots) {
            needed = needed || strcmp(r->dir, path) == 0;
        }
        vec_foreach (p, &ps->plugins) {
            vec_foreach (in, &(*p)->inputs.list) {
                needed = needed || strcmp(in->path, path) == 0;
            }
        }
        if (!needed) {
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
            const struct found *s = look__found(ps, p->path);
            watch_path(ps, p->path, s != NULL && s->content != NULL && s->content->tree.is_file);
        }
    }
    vec_foreach (p, &ps->plugins) {
        vec_foreach (in, &(*p)->inputs.list) {
            if (!is_watched(ps, in->path)) {
                watch_path(ps, in->path, true);
            }
        }
    }
}

void look__unwatch(struct plugins *ps)
{
    for (size_t i = ps->watches.n; i-- > 0;) {
        close_watch(ps, i);
    }
    look__roots_free(ps->roots.p, ps->roots.n);
    vec_fini(&ps->roots);
    vec_fini(&ps->watches);
    vec_fini(&ps->watched);
}
