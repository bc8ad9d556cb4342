// Settings that follow their file, and never follow it into a mistake.
//
//     saved file ──watch──┐
//     SIGHUP ─────────────┴──> read all layers ──┬─ fine:   the new ones are in force
//                                                └─ broken: the old ones stay, its faults are shown
//
// Listeners (config_listen) are called before the old settings are freed. Some settings count at the start only
// (`fixed`): there is a warning while the files say something else than they did then.

#include "settings/settings.h"

#include <assert.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/path.h"
#include "watch/watch.h"

extern char **environ; // the process's own

static const char *const fixed[] = {"store.url", "store.url_secret", "store.hub_name"};

enum { FILES = 2, FIXED = ARRAY_LEN(fixed) }; // the user's file, the system's

struct settings {
    struct settings_opts opts;
    struct config *config; // the same as live.now
    struct config_diags diags;
    bool
        unread; // a file has been broken since the start: its settings for sessions are not in force
    struct config_live live;
    struct watch *watches[FILES];
    struct stat seen[FILES]; // before they were read; zeroed: there was none
    char *started[FIXED];    // with which values of `fixed` the hub started
};

static const char *system_path(const struct settings_opts *o)
{
    return o->system_path != NULL ? o->system_path : CONFIG_SYSTEM_PATH;
}

/// Note how the files look now; true when one of them is another than before.
static bool look(struct settings *s)
{
    const char *paths[FILES] = {s->opts.home->config, system_path(&s->opts)};
    bool changed = false;
    for (size_t i = 0; i < FILES; i++) {
        struct stat now, *was = &s->seen[i];
        if (stat(paths[i], &now) < 0) {
            now = (struct stat){0};
        }
        changed = changed || now.st_ino != was->st_ino || now.st_dev != was->st_dev ||
                  now.st_size != was->st_size ||
                  memcmp(&now.st_mtim, &was->st_mtim, sizeof now.st_mtim) != 0 ||
                  memcmp(&now.st_ctim, &was->st_ctim, sizeof now.st_ctim) != 0;
        *was = now;
    }
    return changed;
}

int settings_read_for(const struct settings *s, const char *root, const char *text,
                      struct config **out, struct config_diags *d, struct err *e)
{
    const struct settings_opts *o = &s->opts;
    char *listen = o->listen != NULL ? xasprintf("listen=%s", o->listen) : NULL;
    char *profile = o->profile != NULL ? xasprintf("profile=%s", o->profile) : NULL;
    const char *flags[3] = {listen != NULL ? listen : profile, listen != NULL ? profile : NULL};
    struct config_sources src = {.home = o->home,
                                 .system_path = o->system_path,
                                 .project_dir = root,
                                 .project_text = text,
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
    const char *path = system_path(o);
    for (size_t i = 0; i < d->n; i++) {
        const struct config_diag *g = &d->p[i];
        if (g->severity == CONFIG_ERROR && strcmp(g->path, path) == 0) {
            return g->line == 0
                       ? err_set(e, ERR_INVALID, "%s", g->message) // it names the file
                       : err_set(e, ERR_INVALID, "'%s' line %u: %s", g->path, g->line, g->message);
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

/// The files were read. A broken one leaves the last good settings in force; at the start there are none, and its
/// settings for sessions must not silently become the defaults.
static void settle_diags(struct settings *s)
{
    s->unread = s->unread && s->diags.broken;
    if (s->unread) {
        config_diags_refuse(&s->diags);
    }
    settings_log_diags(&s->diags);
}

int settings_open(struct settings **out, const struct settings_opts *o, struct err *e)
{
    *out = NULL;
    struct settings *s = xcalloc(1, sizeof *s);
    s->opts = *o;
    config_diags_init(&s->diags);
    (void)look(s);
    int rc = settings_read_for(s, NULL, NULL, &s->config, &s->diags, e);
    if (rc == 0) {
        rc = check_system(o, &s->diags, e);
    }
    if (rc < 0) {
        settings_close(s);
        return rc;
    }
    s->unread = true;
    settle_diags(s);
    apply_level(s->config);
    for (size_t i = 0; i < FIXED; i++) {
        s->started[i] = xstrdup(config_str(s->config, fixed[i]));
    }
    config_put(&s->live, s->config, &s->diags);
    *out = s;
    return 0;
}

/// The first batch reports changes between the first reading and the beginning of the watch.
static void on_saved(struct watch *w, const struct watch_batch *batch, void *arg)
{
    (void)w;
    (void)batch;
    settings_refresh(arg);
}

int settings_watch(struct settings *s, struct watcher *w, struct err *e)
{
    const char *paths[FILES] = {s->opts.home->config, system_path(&s->opts)};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < FILES; i++) {
        const char *name = strrchr(paths[i], '/') + 1;
        char *dir = xstrndup(paths[i], (size_t)(name - paths[i] - 1));
        struct watch_opts o = {.path = dir, .pattern = name};
        assert(s->watches[i] == NULL);
        rc = watch_open(&s->watches[i], w, &o, on_saved, s, e);
        free(dir);
    }
    return rc;
}

void settings_unwatch(struct settings *s)
{
    for (size_t i = 0; i < FILES; i++) {
        watch_close(s->watches[i]);
        s->watches[i] = NULL;
    }
}

void settings_close(struct settings *s)
{
    if (s != NULL) {
        assert(s->live.listeners.n == 0);
        config_free(s->config);
        config_diags_fini(&s->diags);
        for (size_t i = 0; i < FIXED; i++) {
            free(s->started[i]);
        }
        free(s);
    }
}

void settings_log_diags(const struct config_diags *d)
{
    for (size_t i = 0; i < d->n; i++) {
        log_warn(LOG_CONFIG, "path=%s line=%u message=%s", LOGQ(str_of(d->p[i].path)).z,
                 d->p[i].line, LOGQ(str_of(d->p[i].message)).z);
    }
}

/// Warn about settings that wait for the hub's next start.
static void check_fixed(const struct settings *s, const struct config *fresh,
                        struct config_diags *d)
{
    for (size_t i = 0; i < FIXED; i++) {
        const struct config_entry *now = config_find(fresh, fixed[i]);
        if (strcmp(config_str(fresh, fixed[i]), s->started[i]) != 0) {
            struct config_place at = {now->path != NULL ? now->path : s->opts.home->config,
                                      now->line, 1};
            config_diags_add(d, CONFIG_WARNING, at, "run 'afloat stop' and 'afloat start'",
                             "'%s' changed; the hub uses it from its next start on", fixed[i]);
        }
    }
}

void settings_reload(struct settings *s)
{
    struct err e = {0};
    struct config *fresh = NULL, *old = NULL;
    struct config_diags diags;
    config_diags_init(&diags);
    (void)look(s);
    if (settings_read_for(s, NULL, NULL, &fresh, &diags, &e) < 0) {
        log_error(LOG_CONFIG, "reload=failed reason=%s", LOGQ(str_of(e.msg)).z);
        config_diags_fini(&diags);
        return;
    }
    if (!diags.broken) {
        check_fixed(s, fresh, &diags);
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
    settle_diags(s);
    log_info(LOG_CONFIG, "reload=done broken=%d diagnostics=%zu", diags.broken, diags.n);
    config_put(&s->live, s->config, &s->diags);
    config_free(old);
}

void settings_refresh(struct settings *s)
{
    if (look(s)) {
        settings_reload(s);
    }
}

struct config_live *settings_live(struct settings *s)
{
    return &s->live;
}
