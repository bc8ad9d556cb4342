// The places where plugins may be: what the directories of a layer hold, and what was said by
// configuration or by command. Both give places of one form; see entries.c for what becomes of them.
//
// A scan looks at names only. Whether a directory is a plugin is known when its files were read; a
// directory that is none is shown with the reason, so that a misspelled init.lua does not just vanish.
//
// Rules of what was said:
//   - a path is relative to the file it is written in; `~` is the home directory.
//   - `name` finds a shipped plugin. A name that no shipped plugin has gives a place with an empty
//     path: nothing is there.
//   - lines of a trusted project's file belong to that project.
//   - an entry of `plugin add` for a place that a line of the configuration names too is that line, with
//     the options and the hotness that were chosen; anything else would be the same plugin twice.
//
// Options are copied: the configuration and the choices change while places are in use.

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/path.h"
#include "config/config.h"
#include "plugin/entries.h"
#include "plugin/manifest.h"
#include "plugin/shipped.h"
#include "watch/ignore.h"

static int count_in_layer(const struct plugin_places *p, const struct plugin_place *like)
{
    int n = 0;
    for (size_t i = 0; i < p->list.n; i++) {
        const struct plugin_place *it = &p->list.p[i];
        bool same = it->project == NULL || like->project == NULL
                        ? it->project == like->project
                        : strcmp(it->project, like->project) == 0;
        n += same && it->layer == like->layer;
    }
    return n;
}

static void add(struct plugin_places *p, struct plugin_place place)
{
    place.order = count_in_layer(p, &place);
    vec_push(&p->list, place);
}

// ---- directories ----------------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/// Could `name` in `dir` be a plugin, by its looks? A symbolic link is what it leads to. Negative when
/// it cannot be looked at: that is no reason to call it gone.
static int looks_right(int dir, const char *name)
{
    struct stat st;
    if (name[0] == '.') {
        return false;
    }
    if (fstatat(dir, name, &st, 0) < 0) {
        return errno == ENOENT || errno == ELOOP || errno == EACCES ? 0 : -errno;
    }
    bool is_dir = S_ISDIR(st.st_mode);
    if (ignore_match(watch_ignore_default, str_of(name), is_dir) ||
        strcmp(name, "__pycache__") == 0) {
        return false;
    }
    return is_dir || (S_ISREG(st.st_mode) && plugin_lang_of(str_of(name)) != LANG_NONE);
}

int places_scan(struct plugin_places *p, const struct plugin_root *root, struct err *e)
{
    vec(char *) names = {0};
    const struct dirent *de;
    DIR *d = opendir(root->dir);
    int rc = 0;
    if (d == NULL) {
        return errno == ENOENT ? 0 : err_sys(e, "cannot read '%s'", root->dir);
    }
    while (rc >= 0 && (errno = 0, de = readdir(d)) != NULL) {
        rc = looks_right(dirfd(d), de->d_name);
        if (rc > 0) {
            vec_push(&names, xstrdup(de->d_name));
        }
    }
    rc = rc < 0 ? rc : -errno;
    closedir(d);
    if (rc < 0) {
        err_set(e, rc, "cannot read '%s': %s", root->dir, err_text(rc));
    } else if (names.n != 0) {
        qsort(names.p, names.n, sizeof *names.p, by_name);
    }
    vec_foreach (name, &names) {
        if (rc == 0) {
            char *joined = path_join(root->dir, *name);
            struct plugin_place place = {
                .path = path_clean(joined),
                .layer = root->layer,
                .project = root->project != NULL ? xstrdup(root->project) : NULL,
                .slug = root->slug != NULL ? xstrdup(root->slug) : NULL,
                .source = root->layer == LAYER_SHIPPED ? "shipped" : "discovered",
                .hot = HOT_YES,
                .enabled = true,
            };
            place.order =
                name == names.p ? count_in_layer(p, &place) : vec_last(&p->list)->order + 1;
            vec_push(&p->list, place);
            free(joined);
        }
        free(*name);
    }
    vec_fini(&names);
    return rc;
}

// ---- configuration and choices --------------------------------------------------------------

static enum plugin_hot hot_of(const struct json *v, enum plugin_hot fallback)
{
    if (v == NULL || (v->type != JSON_BOOL && !str_eqz(json_str(v, ""), "manual"))) {
        return fallback;
    }
    return v->type == JSON_STR ? HOT_MANUAL : v->b ? HOT_YES : HOT_NO;
}

/// `path` as written in `file`: expanded, absolute, clean.
static char *place_path(struct str path, const char *file)
{
    char *said = str_dup(path);
    char *home = path_expand_home(said);
    char *dir = str_dup(path_dir(str_of(file)));
    char *joined = path_join(dir, home);
    char *clean = path_clean(joined);
    free(said);
    free(home);
    free(dir);
    free(joined);
    return clean;
}

static char *shipped_path(struct str name, const char *shipped_dir)
{
    if (shipped_dir == NULL || !shipped_has(name)) {
        return xstrdup("");
    }
    char *z = str_dup(name);
    char *path = path_join(shipped_dir, z);
    free(z);
    return path;
}

static struct plugin_place configured(struct plugin_places *p, const struct config_entry *c,
                                      const char *shipped_dir)
{
    const struct json *path = json_get(c->value, "path");
    struct str name = json_get_text(c->value, "name");
    const struct json *prefer = json_get(c->value, "prefer");
    return (struct plugin_place){
        .path = path != NULL ? place_path(json_str(path, ""), c->path != NULL ? c->path : "/")
                             : shipped_path(name, shipped_dir),
        .layer = LAYER_CONFIG,
        .source = "config",
        .hot = hot_of(json_get(c->value, "hot"), HOT_YES),
        .enabled = json_bool(json_get(c->value, "enabled"), true),
        .required = json_bool(json_get(c->value, "required"), false),
        .options = json_clone(&p->arena, json_get(c->value, "options")),
        .prefer = prefer != NULL && prefer->n != 0 ? json_clone(&p->arena, prefer) : NULL,
        .said_path = c->path != NULL ? xstrdup(c->path) : NULL,
        .said_line = (int)MIN(c->line, (uint32_t)INT32_MAX),
        .name = path == NULL ? str_dup(name) : NULL,
    };
}

/// One entry of `plugin add`: a path, or the name of a shipped plugin. Users may write the file of choices: an entry
/// with neither is passed over.
static void add_chosen(struct plugin_places *p, const struct json *entry, const char *shipped_dir)
{
    struct str said = json_get_text(entry, "path");
    struct str name = json_get_text(entry, "name");
    const struct json *options = json_get(entry, "options"), *hot = json_get(entry, "hot");
    if (name.n == 0 && (!str_starts(said, "/") || str_index(said, '\0') >= 0)) {
        return;
    }
    char *path = name.n != 0 ? shipped_path(name, shipped_dir) : place_path(said, "/");
    vec_foreach (it, &p->list) {
        if (it->layer == LAYER_CONFIG && strcmp(it->path, path) == 0) {
            it->hot = hot_of(hot, it->hot);
            it->options = options != NULL ? json_clone(&p->arena, options) : it->options;
            free(path);
            return;
        }
    }
    add(p, (struct plugin_place){.path = path,
                                 .layer = LAYER_CONFIG,
                                 .source = "choice",
                                 .hot = hot_of(hot, HOT_YES),
                                 .enabled = true,
                                 .options = json_clone(&p->arena, options),
                                 .name = name.n != 0 ? str_dup(name) : NULL});
}

/// The i-th line of `[[plugins]]`; NULL after the last.
static const struct config_entry *line_at(const struct config *c, size_t i)
{
    char key[32];
    snprintf(key, sizeof key, "plugins.%zu", i);
    return config_find(c, key);
}

void places_configured(struct plugin_places *p, const struct config *c, const struct json *choices,
                       const char *shipped_dir)
{
    const struct config_entry *entry;
    for (size_t i = 0; (entry = line_at(c, i)) != NULL; i++) {
        add(p, configured(p, entry, shipped_dir));
    }
    json_foreach_item (it, json_get(choices, "plugin_entries")) {
        add_chosen(p, it, shipped_dir);
    }
}

void places_of_project(struct plugin_places *p, const struct config *c, const char *slug,
                       const char *shipped_dir)
{
    const struct config_entry *entry;
    for (size_t i = 0; (entry = line_at(c, i)) != NULL; i++) {
        if (entry->origin == CONFIG_PROJECT) {
            struct plugin_place place = configured(p, entry, shipped_dir);
            place.layer = LAYER_REPO;
            place.project =
                str_dup(path_dir(path_dir(str_of(entry->path)))); // of .afloat/config.toml
            place.slug = xstrdup(slug);
            add(p, place);
        }
    }
}

// ---- life -----------------------------------------------------------------------------------

void place_fini(struct plugin_place *p)
{
    free(p->path);
    free(p->project);
    free(p->slug);
    free(p->said_path);
    free(p->called);
    free(p->name);
}

void places_fini(struct plugin_places *p)
{
    vec_foreach (it, &p->list) {
        place_fini(it);
    }
    vec_fini(&p->list);
    arena_fini(&p->arena);
}
