// Settings that follow their file, and never follow it into a mistake.
//
//     saved file ──watch──┐
//     SIGHUP ─────────────┴──> read all layers ──┬─ fine:   the new ones are in force
//                                                └─ broken: the old ones stay, its faults are shown
//
// Those who listen (config_listen) are told before the old ones go.

#include "settings/settings.h"

#include <assert.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/path.h"
#include "watch/watch.h"

extern char **environ; // the process's own

struct settings {
    struct settings_opts opts;
    struct config *config; // the same as live.now
    struct config_diags diags;
    struct config_live live;
    struct watch *watch;
    struct stat seen; // of the user's file, before it was read; zeroed: there was none
};

/// How the user's file looks now.
static struct stat look(const struct settings_opts *o)
{
    struct stat st;
    char *path = path_join(o->home->dir, "config.toml");
    if (stat(path, &st) < 0) {
        st = (struct stat){0};
    }
    free(path);
    return st;
}

static bool looks_alike(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           memcmp(&a->st_mtim, &b->st_mtim, sizeof a->st_mtim) == 0 &&
           memcmp(&a->st_ctim, &b->st_ctim, sizeof a->st_ctim) == 0;
}

/// A project's layer that may be NULL, and what its file holds.
struct project_layer {
    const char *root, *text;
};

static int read_layers(const struct settings_opts *o, struct project_layer p, struct config **out,
                       struct config_diags *d, struct err *e)
{
    char *listen = o->listen != NULL ? xasprintf("listen=%s", o->listen) : NULL;
    char *profile = o->profile != NULL ? xasprintf("profile=%s", o->profile) : NULL;
    const char *flags[3] = {listen != NULL ? listen : profile, listen != NULL ? profile : NULL};
    struct config_sources src = {.home = o->home,
                                 .system_path = o->system_path,
                                 .project_dir = p.root,
                                 .project_text = p.text,
                                 .env = (const char *const *)environ,
                                 .flags = flags,
                                 .hub = true};
    int rc = config_load(out, &src, d, e);
    free(listen);
    free(profile);
    return rc;
}

// A broken system file would take its [policy] with it.
static int check_system(const struct settings_opts *o, const struct config_diags *d, struct err *e)
{
    const char *path = o->system_path != NULL ? o->system_path : CONFIG_SYSTEM_PATH;
    for (size_t i = 0; i < d->n; i++) {
        const struct config_diag *g = &d->p[i];
        if (g->severity == CONFIG_ERROR && strcmp(g->path, path) == 0) {
            return err_set(e, ERR_INVALID, "'%s' line %u: %s", g->path, g->line, g->message);
        }
    }
    return 0;
}

static void apply_level(const struct config *c)
{
    enum log_level level;
    if (log_level_parse(str_of(config_str(c, "log.level")), &level)) {
        log_set_level(level);
    }
}

int settings_open(struct settings **out, const struct settings_opts *o, struct err *e)
{
    *out = NULL;
    struct settings *s = xcalloc(1, sizeof *s);
    s->opts = *o;
    config_diags_init(&s->diags);
    s->seen = look(o);
    int rc = read_layers(o, (struct project_layer){0}, &s->config, &s->diags, e);
    if (rc == 0) {
        rc = check_system(o, &s->diags, e);
    }
    if (rc < 0) {
        settings_close(s);
        return rc;
    }
    settings_log_diags(&s->diags);
    apply_level(s->config);
    config_put(&s->live, s->config, &s->diags);
    *out = s;
    return 0;
}

/// What came between the first reading and the beginning of the watch is in its inventory.
static void on_saved(struct watch *w, const struct watch_batch *batch, void *arg)
{
    (void)w;
    (void)batch;
    settings_refresh(arg);
}

int settings_watch(struct settings *s, struct watcher *w, struct err *e)
{
    struct watch_opts o = {.path = s->opts.home->dir,
                           .pattern = "config.toml",
                           .debounce_ms = (unsigned)config_int(s->config, "watch.debounce_ms"),
                           .poll_ms = (unsigned)config_int(s->config, "watch.poll_ms"),
                           .poll = config_bool(s->config, "watch.poll")};
    assert(s->watch == NULL);
    return watch_open(&s->watch, w, &o, on_saved, s, e);
}

void settings_unwatch(struct settings *s)
{
    watch_close(s->watch);
    s->watch = NULL;
}

void settings_close(struct settings *s)
{
    if (s != NULL) {
        assert(s->live.listeners.n == 0);
        config_free(s->config);
        config_diags_fini(&s->diags);
        free(s);
    }
}

int settings_read_for(const struct settings *s, const char *root, const char *text,
                      struct config **out, struct config_diags *d, struct err *e)
{
    return read_layers(&s->opts, (struct project_layer){root, text}, out, d, e);
}

void settings_log_diags(const struct config_diags *d)
{
    for (size_t i = 0; i < d->n; i++) {
        log_warn(LOG_CONFIG, "path=%s line=%u message=%s", LOGQ(str_of(d->p[i].path)).z,
                 d->p[i].line, LOGQ(str_of(d->p[i].message)).z);
    }
}

void settings_reload(struct settings *s)
{
    struct err e = {0};
    struct config *fresh = NULL, *old = NULL;
    struct config_diags diags;
    config_diags_init(&diags);
    s->seen = look(&s->opts);
    if (read_layers(&s->opts, (struct project_layer){0}, &fresh, &diags, &e) < 0) {
        log_error(LOG_CONFIG, "reload=failed reason=%s", LOGQ(str_of(e.msg)).z);
        config_diags_fini(&diags);
        return;
    }
    config_diags_fini(&s->diags);
    s->diags = diags;
    if (diags.broken) {
        config_free(fresh);
    } else {
        old = s->config;
        s->config = fresh;
        apply_level(fresh);
    }
    settings_log_diags(&s->diags);
    log_info(LOG_CONFIG, "reload=done broken=%d diagnostics=%zu", diags.broken, diags.n);
    config_put(&s->live, s->config, &s->diags);
    config_free(old);
}

void settings_refresh(struct settings *s)
{
    struct stat now = look(&s->opts);
    if (!looks_alike(&now, &s->seen)) {
        settings_reload(s);
    }
}

struct config_live *settings_live(struct settings *s)
{
    return &s->live;
}
