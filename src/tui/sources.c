// The files that make the interface, and when it is built anew.
//
//     HOME/lua/ui/         in the place of the shipped file of that name
//     PLUGIN/ui/           of each plugin that serves, in load order
//     HOME/lua/user/ui/    last
//
// All of them are watched. Whatever changes, everything is built from its base: the files in order, in a new
// state (ui.c). A file that fails is left at its last good text, or out, and named in the status row; the others
// count as they are. So a broken save never takes away what is on the screen.
//
// The files of a project's plugin are the hub's to judge: after a change they wait until the hub says that what is
// there is what it trusts.

#include <assert.h>

#include "base/path.h"
#include "tui/tui_int.h"

enum { TEXT_MAX_BYTES = 1 << 20 };

struct source_file {
    char *text; // NULL: there is none
    char *good; // what was last built; NULL: nothing
    bool bad;   // `text` was built and failed
};

struct source_dir {
    struct tui *t;
    char *path;
    struct watch *watch;
    bool looked;    // it has been read once
    bool project;   // of a project: the hub decides
    bool held;      // what it holds is not trusted, as far as we know
    bool is_listed; // still among the plugins
    struct source_file files[UI__KINDS];
};

// ---- watching ------------------------------------------------------------------------------

static void on_soon(void *arg)
{
    struct tui *t = arg;
    vec_foreach (d, &t->sources.dirs) {
        if (!(*d)->looked) {
            return; // its first look calls again
        }
    }
    sources__build(t);
}

static int kind_of(const char *path)
{
    struct str base = path_base(str_of(path));
    for (int i = 0; i < UI__KINDS; i++) {
        size_t n = strlen(ui_kind_names[i]);
        if (base.n == n + 4 && strncmp(base.p, ui_kind_names[i], n) == 0) {
            return i;
        }
    }
    return -1;
}

static void on_batch(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct source_dir *d = arg;
    bool changed = false;
    (void)w;
    for (size_t i = 0; i < batch->n; i++) {
        const struct watch_change *c = &batch->changes[i];
        int kind = kind_of(c->path);
        if (kind >= 0) {
            struct source_file *f = &d->files[kind];
            free(f->text);
            f->text = c->kind == WATCH_DELETED ? NULL : str_dup(c->bytes);
            f->bad = false;
            changed = true;
        }
    }
    if (changed && d->project && d->looked) {
        d->held = true;
        model__refresh(d->t, DOC_PLUGINS);
    }
    if (changed || !d->looked) {
        d->looked = true;
        timer_start(&d->t->sources.soon, 0);
    }
}

static struct source_dir *dir_new(struct tui *t, char *path)
{
    struct source_dir *d = xcalloc(1, sizeof *d);
    struct err e;
    d->t = t;
    d->path = path;
    struct watch_opts o = {
        .path = path, .pattern = "*.lua", .want_bytes = true, .bytes_max = TEXT_MAX_BYTES};
    if (watch_open(&d->watch, t->sources.watcher, &o, on_batch, d, &e) < 0) {
        d->looked = true; // then it is as if it were empty
    }
    return d;
}

static void dir_free(struct source_dir *d)
{
    watch_close(d->watch);
    for (size_t i = 0; i < UI__KINDS; i++) {
        free(d->files[i].text);
        free(d->files[i].good);
    }
    free(d->path);
    free(d);
}

// ---- plugins -------------------------------------------------------------------------------

// A project's plugin counts where we were opened in that project.
static bool is_here(const struct tui *t, const struct json *row)
{
    char *project = str_dup(json_get_text(row, "project"));
    bool here = project[0] == '\0' || path_below(project, t->o->project) != NULL;
    free(project);
    return here;
}

// The directory of a plugin's interface, or NULL. The caller frees it.
static char *ui_dir(const struct tui *t, const struct json *row)
{
    struct str path = json_get_text(row, "path");
    bool directory = path.n != 0 && path.p[0] == '/' && str_index(path_base(path), '.') < 0;
    return directory && json_bool(json_get(row, "serving"), false) && is_here(t, row)
               ? xasprintf(STR_FMT "/ui", STR_ARG(path))
               : NULL;
}

static struct source_dir *find_dir(struct tui *t, const char *path)
{
    for (size_t i = 1; i + 1 < t->sources.dirs.n; i++) {
        if (strcmp(t->sources.dirs.p[i]->path, path) == 0) {
            return t->sources.dirs.p[i];
        }
    }
    return NULL;
}

static bool drop_unlisted(struct tui *t)
{
    bool dropped = false;
    for (size_t i = t->sources.dirs.n - 1; i-- > 1;) {
        if (!t->sources.dirs.p[i]->is_listed) {
            dir_free(t->sources.dirs.p[i]);
            vec_remove(&t->sources.dirs, i);
            dropped = true;
        }
    }
    return dropped;
}

// Put `d` before the user's own, in the order of the calls.
static void insert(struct tui *t, struct source_dir *d)
{
    struct source_dir *last = vec_pop(&t->sources.dirs);
    vec_push(&t->sources.dirs, d);
    vec_push(&t->sources.dirs, last);
}

void sources__set_plugins(struct tui *t, const struct json *plugins)
{
    bool build = false;
    if (t->o->safe) {
        return;
    }
    for (size_t i = 1; i + 1 < t->sources.dirs.n; i++) {
        t->sources.dirs.p[i]->is_listed = false;
    }
    json_foreach_item (row, plugins) {
        char *path = ui_dir(t, row);
        struct source_dir *d = path != NULL ? find_dir(t, path) : NULL;
        if (path != NULL && d == NULL) {
            d = dir_new(t, path);
            insert(t, d);
        } else {
            free(path);
        }
        if (d != NULL) {
            bool held = json_get(row, "project") != NULL && json_get(row, "pending") != NULL;
            d->project = json_get(row, "project") != NULL;
            build = build || held != d->held;
            d->held = held;
            d->is_listed = true;
        }
    }
    if (drop_unlisted(t) || build) {
        timer_start(&t->sources.soon, 0);
    }
}

// ---- building ------------------------------------------------------------------------------

/// The files of a build, and where each comes from.
struct plan {
    ui_files files;
    vec(struct source_file *) from; // NULL: shipped
};

static void add(struct plan *p, const char *path, enum ui_kind kind, struct str text,
                struct source_file *from)
{
    struct ui_file f = {.path = xstrdup(path), .kind = kind, .text = text};
    vec_push(&p->files, f);
    vec_push(&p->from, from);
}

static bool add_own(struct plan *p, struct source_dir *d, enum ui_kind kind)
{
    struct source_file *f = &d->files[kind];
    bool use_good = f->bad || d->held;
    const char *text = f->text == NULL ? NULL : use_good ? f->good : f->text;
    if (text == NULL) {
        return false;
    }
    char *path = xasprintf("%s/%s.lua", d->path, ui_kind_names[kind]);
    add(p, path, kind, str_of(text), f);
    free(path);
    return true;
}

static void add_shipped(struct plan *p, const struct tui *t, enum ui_kind kind)
{
    char name[64];
    snprintf(name, sizeof name, "ui/%s.lua", ui_kind_names[kind]);
    for (const struct shipped *s = t->o->shipped; s->rel != NULL; s++) {
        if (strcmp(s->rel, name) == 0) {
            add(p, name, kind, (struct str){s->text, s->n}, NULL);
        }
    }
}

static void make_plan(struct plan *p, struct tui *t)
{
    for (int kind = 0; kind < UI__KINDS; kind++) {
        bool own = t->sources.dirs.n != 0 && add_own(p, t->sources.dirs.p[0], (enum ui_kind)kind);
        if (!own) {
            add_shipped(p, t, (enum ui_kind)kind);
        }
    }
    for (size_t i = 1; i < t->sources.dirs.n; i++) {
        for (int kind = 0; kind < UI__KINDS; kind++) {
            add_own(p, t->sources.dirs.p[i], (enum ui_kind)kind);
        }
    }
}

static void plan_fini(struct plan *p)
{
    vec_foreach (f, &p->files) {
        free(f->path);
    }
    vec_fini(&p->files);
    vec_fini(&p->from);
}

// The file that a fault names is not used as it is any more. False when no file of ours is at fault.
static bool set_aside(struct plan *p, const struct ui_fault *f)
{
    for (size_t i = 0; i < p->files.n; i++) {
        struct source_file *s = p->from.p[i];
        if (s != NULL && strcmp(p->files.p[i].path, f->path) == 0) {
            if (s->bad) { // the good one fails too, now that others have changed
                free(s->good);
                s->good = NULL;
            }
            s->bad = true;
            return true;
        }
    }
    return false;
}

// The fault names no file: set aside all files that are not shipped.
static void set_all_aside(struct plan *p)
{
    for (size_t i = 0; i < p->from.n; i++) {
        if (p->from.p[i] != NULL) {
            free(p->from.p[i]->good);
            p->from.p[i]->good = NULL;
            p->from.p[i]->bad = true;
        }
    }
}

static void note_good(struct plan *p)
{
    for (size_t i = 0; i < p->from.n; i++) {
        struct source_file *s = p->from.p[i];
        if (s != NULL && !s->bad && s->text != NULL &&
            (s->good == NULL || strcmp(s->good, s->text) != 0)) {
            free(s->good);
            s->good = xstrdup(s->text);
        }
    }
}

// One try with the files as they stand. NULL: one of them was set aside.
static struct ui *try_once(struct tui *t, struct ui_fault *fault)
{
    struct plan p = {0};
    make_plan(&p, t);
    struct ui *ui = ui__new(t, &p.files, t->ui, fault);
    if (ui != NULL) {
        note_good(&p);
    } else if (!set_aside(&p, fault)) {
        set_all_aside(&p);
    }
    plan_fini(&p);
    return ui;
}

void sources__build(struct tui *t)
{
    struct ui_fault first = {0}, fault;
    struct ui *ui = NULL;
    size_t tries = 2 * UI__KINDS * (t->sources.dirs.n + 1) + 2;
    for (size_t i = 0; ui == NULL && i < tries; i++) {
        ui = try_once(t, &fault);
        if (ui == NULL && first.text[0] == '\0') {
            first = fault;
        }
    }
    assert(ui != NULL); // the shipped files alone can be built
    ui__retire(t->ui);
    t->ui = ui;
    snprintf(t->error, sizeof t->error, "%s", first.text);
    app__changed(t, true);
    app__hurry(t); // the user has just saved it and looks
}

void sources__reject(struct tui *t, const struct ui_fault *f)
{
    struct plan p = {0};
    make_plan(&p, t);
    bool ours = set_aside(&p, f);
    plan_fini(&p);
    if (ours) {
        sources__build(t);
        snprintf(t->error, sizeof t->error, "%s", f->text);
    }
}

// ---- life ----------------------------------------------------------------------------------

void sources__open(struct tui *t)
{
    const char *home = t->o->home->dir;
    timer_init(&t->sources.soon, &t->loop, on_soon, t);
    if (t->o->safe) {
        timer_start(&t->sources.soon, 0);
        return;
    }
    t->sources.watcher = watcher_open(&t->loop, NULL, NULL);
    vec_push(&t->sources.dirs, dir_new(t, xasprintf("%s/lua/ui", home)));
    vec_push(&t->sources.dirs, dir_new(t, xasprintf("%s/lua/user/ui", home)));
}

void sources__close(struct tui *t)
{
    timer_stop(&t->sources.soon);
    vec_fini_each(&t->sources.dirs, dir_free);
    watcher_close(t->sources.watcher);
}
