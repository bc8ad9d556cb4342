// Settings of projects, while sessions work in them.
//
//     enter ──────────┐
//     file saved ─────┼──> worker: file, trust book, all layers ──> in force, or the last good ones stay
//     trust changed ──┤
//     hub's settings ─┘
//
// config/ decides which settings a project may set, and which only to a narrower value; it reports the others with
// file and line, in the log and in `afloat config show`. This file decides whether the project's file counts at
// all. A file that is not trusted is ignored, which is logged once until it changes. A broken file, of the project
// or the user, changes nothing: the last good settings stay, or without any the hub's own count, never a mixture
// from which a stricter line is missing.
//
// One thread reads, in order, so the last reading is the newest.

#include "settings/projects.h"

#include "base/log.h"
#include "base/path.h"
#include "loop/work.h"
#include "settings/settings.h"
#include "trust/settings.h"
#include "trust/stays.h"
#include "trust/trust.h"
#include "watch/watch.h"

struct project {
    struct projects *all;
    struct project *next;
    char *root;
    struct config *config;     // NULL: the hub's
    struct config_diags diags; // of the last reading, that of the user's own file, too
    char *refusal;             // why no session may begin; NULL: sessions may
    char *refused;             // the untrusted text that was logged last, or NULL
    struct watch *watch;       // NULL: it could not be watched
};

struct projects {
    struct projects_opts o;
    struct lane *lane;
    struct project *list; // those with a session in them
    struct stays stays;
    bool closed;
};

/// One reading, on its way to the worker and back.
struct reading {
    struct projects *p;
    char *dir, *real;
    struct trust_settings found;
    struct config *config; // NULL: nothing that may be used
    struct config_diags diags;
    bool enters;
    projects_entered *done; // NULL
    void *arg;
};

static void read_again(struct project *pr);

// ---- on the worker -------------------------------------------------------------------------------

static void read_config(struct reading *r)
{
    struct err e = {0};
    int rc = settings_read_for(r->p->o.settings, r->found.root, r->found.text, &r->config,
                               &r->diags, &e);
    if (rc < 0) {
        r->found.why = xstrdup(e.msg);
    } else if (r->diags.broken) {
        config_free(r->config);
        r->config = NULL;
    }
}

static void work(void *arg)
{
    struct reading *r = arg;
    r->real = realpath(r->dir, NULL);
    trust_settings_read(&r->found, r->p->o.home->dir, r->dir);
    if (r->found.trusted) {
        read_config(r);
    }
}

// ---- back on the loop ----------------------------------------------------------------------------

/// The nearest project around `dir`; NULL when there is none.
static struct project *find(const struct projects *p, const char *dir)
{
    struct project *best = NULL;
    for (struct project *pr = p->list; pr != NULL; pr = pr->next) {
        bool around = path_below(pr->root, dir) != NULL;
        if (around && (best == NULL || strlen(pr->root) > strlen(best->root))) {
            best = pr;
        }
    }
    return best;
}

static void on_saved(struct watch *w, const struct watch_batch *batch, void *arg)
{
    (void)w;
    if (!batch->first) {
        read_again(arg);
    }
}

static struct project *open_project(struct projects *p, const char *root)
{
    struct project *pr = xcalloc(1, sizeof *pr);
    struct err e = {0};
    char *dir = path_join(root, ".afloat");
    struct watch_opts o = {.path = dir, .pattern = "config.toml"};
    *pr = (struct project){.all = p, .next = p->list, .root = xstrdup(root)};
    p->list = pr;
    if (watch_open(&pr->watch, p->o.watcher, &o, on_saved, pr, &e) < 0) {
        log_warn(LOG_CONFIG, "cannot watch the settings of '%s': %s", root, e.msg);
    }
    free(dir);
    return pr;
}

static void close_project(struct project *pr)
{
    struct project **at = &pr->all->list;
    while (*at != pr) {
        at = &(*at)->next;
    }
    *at = pr->next;
    watch_close(pr->watch);
    config_free(pr->config);
    config_diags_fini(&pr->diags);
    free(pr->refusal);
    free(pr->refused);
    free(pr->root);
    free(pr);
}

/// Log that the file is not trusted, once for each text.
static void note_refused(struct project *pr, const char *text)
{
    if (pr->refused == NULL || strcmp(pr->refused, text) != 0) {
        log_warn(LOG_CONFIG,
                 "the settings of '%s' are not trusted and are ignored: look at them, then "
                 "type 'afloat trust'",
                 pr->root);
        free(pr->refused);
        pr->refused = xstrdup(text);
    }
}

/// "config.toml:7: ...", for the caller to free; NULL: no diagnostic refuses sessions.
static char *refusal_of(const struct config_diags *d)
{
    const char until[] = "no session starts until this is fixed";
    const struct config_diag *it = config_diags_refusal(d);
    return it == NULL      ? NULL
           : it->line == 0 ? xasprintf("%s; %s", it->message, until) // it names the file
                           : xasprintf("%s:%u: %s; %s", it->path, it->line, it->message, until);
}

/// Put the settings that were read into force, unless they are broken.
static void take(struct project *pr, struct reading *r)
{
    const struct trust_settings *found = &r->found;
    settings_log_diags(&r->diags);
    if (found->trusted && r->config == NULL && pr->config == NULL) {
        config_diags_refuse(&r->diags); // its stricter lines are not in force
    }
    config_diags_fini(&pr->diags);
    pr->diags = r->diags;
    config_diags_init(&r->diags);
    free(pr->refusal);
    pr->refusal = refusal_of(&pr->diags);
    if (found->why != NULL) {
        log_warn(LOG_CONFIG, "cannot read the settings of '%s': %s", pr->root, found->why);
        return;
    }
    if (found->text != NULL && !found->trusted) {
        note_refused(pr, found->text);
    } else if (found->text != NULL && r->config == NULL) {
        return;
    }
    if (pr->config == NULL && r->config == NULL) {
        return;
    }
    struct config *old = pr->config;
    pr->config = r->config;
    r->config = NULL;
    pr->all->o.changed(pr->all->o.arg);
    config_free(old);
}

static void free_reading(struct reading *r)
{
    config_free(r->config);
    config_diags_fini(&r->diags);
    trust_settings_fini(&r->found);
    free(r->dir);
    free(r->real);
    free(r);
}

/// Close the projects without sessions.
static void close_empty(struct projects *p)
{
    for (struct project *pr = p->list, *next; pr != NULL; pr = next) {
        next = pr->next;
        if (!stays_has(&p->stays, pr->root)) {
            close_project(pr);
            p->o.judged(p->o.arg);
        }
    }
}

static void on_read(void *arg)
{
    struct reading *r = arg;
    struct projects *p = r->p;
    const char *root = p->closed ? NULL : r->found.root;
    struct project *pr = root != NULL ? find(p, root) : NULL;
    if (pr != NULL && strcmp(pr->root, root) != 0) {
        pr = NULL; // one around it
    }
    if (r->enters && r->real != NULL && !p->closed) {
        stays_enter(&p->stays, r->real, root);
        pr = pr == NULL && root != NULL ? open_project(p, root) : pr;
        close_empty(p);
    }
    if (pr != NULL) {
        take(pr, r);
        p->o.judged(p->o.arg);
    }
    if (r->done != NULL) {
        r->done(r->arg, r->real);
    }
    free_reading(r);
}

static void start(struct projects *p, const char *dir, bool enters, projects_entered *done,
                  void *arg)
{
    struct reading *r = xcalloc(1, sizeof *r);
    *r = (struct reading){.p = p, .dir = xstrdup(dir), .enters = enters, .done = done, .arg = arg};
    config_diags_init(&r->diags);
    work_submit(p->lane, 0, work, on_read, r);
}

static void read_again(struct project *pr)
{
    start(pr->all, pr->root, false, NULL, NULL);
}

static void on_settings(void *arg)
{
    struct projects *p = arg;
    for (struct project *pr = p->list; pr != NULL; pr = pr->next) {
        read_again(pr);
    }
}

static void on_trust(const struct trust *t, void *arg)
{
    (void)t;
    on_settings(arg);
}

// ---- public --------------------------------------------------------------------------------------

struct projects *projects_open(const struct projects_opts *o)
{
    struct projects *p = xcalloc(1, sizeof *p);
    p->o = *o;
    p->lane = lane_open(o->loop, "projects", 1);
    stays_init(&p->stays);
    trust_listen(o->trust, on_trust, p);
    config_listen(settings_live(o->settings), on_settings, p);
    return p;
}

void projects_close(struct projects *p)
{
    if (p == NULL) {
        return;
    }
    p->closed = true;
    trust_unlisten(p->o.trust, on_trust, p);
    config_unlisten(settings_live(p->o.settings), on_settings, p);
    while (p->list != NULL) {
        close_project(p->list);
    }
    lane_close(p->lane);
}

void projects_free(struct projects *p)
{
    if (p != NULL) {
        stays_fini(&p->stays);
        free(p);
    }
}

void projects_enter(struct projects *p, const char *dir, projects_entered *done, void *arg)
{
    start(p, dir, true, done, arg);
}

void projects_leave(struct projects *p, const char *real_dir)
{
    assert(real_dir != NULL && real_dir[0] == '/');
    stays_leave(&p->stays, real_dir);
    close_empty(p);
}

const struct config *projects_config(const struct projects *p, const char *dir)
{
    const struct project *pr = find(p, dir);
    return pr != NULL ? pr->config : NULL;
}

void projects_add_faults(const struct projects *p, struct config_diags *out)
{
    for (const struct project *pr = p->list; pr != NULL; pr = pr->next) {
        char *file = path_join(pr->root, CONFIG_PROJECT_FILE);
        config_diags_add_from(out, &pr->diags, file);
        free(file);
    }
}

char *projects_refusal(const struct projects *p, const char *dir)
{
    const struct project *pr = find(p, dir);
    char *why = refusal_of(settings_live(p->o.settings)->diags);
    return why != NULL || pr == NULL || pr->refusal == NULL ? why : xstrdup(pr->refusal);
}
