// Inputs of an environment, and whether they are still what a build used.
//
// Each has two fingerprints: `built`, what the last finished build used, and `now`, what the watcher or a
// look saw last. An input has changed when the two differ. While a build runs, `start` is what it began with
// or read; it becomes `built` when the build is over.
//
// An input that changed after the build read it, but before it was watched, differs at once: the builder
// reports the hash of what it read. Where only another program knows (direnv's list), a file that changed
// after the build began, or is gone by now, counts as changed.
//
// Not watched, also not inside of a watched directory: what never changes (a store), and what we or a delegate
// write ourselves.

#include "env/inputs.h"

#include <assert.h>

#include "base/path.h"
#include "env/pattern.h"
#include "watch/ignore.h"
#include "watch/watch.h"

enum { INPUTS_MAX = 4096 };

// Of the project: written by builds.
static const char *const built_dirs[] = {".afloat/state", ".devenv"};

static bool print_eq(const struct env_print *a, const struct env_print *b)
{
    return a->known == b->known && a->there == b->there &&
           memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

static void free_input(struct env_tracked *in)
{
    watch_close(in->watch);
    free(in->seen.path);
    free(in);
}

// A file that is too large to be read is known by its size and the time of its last change.
static void print_large(uint8_t hash[SHA256_SIZE], uint64_t size, int64_t ctime_ns)
{
    memset(hash, 0, SHA256_SIZE);
    memcpy(hash, &size, sizeof size);
    memcpy(hash + sizeof size, &ctime_ns, sizeof ctime_ns);
}

static void take_change(struct env_tracked *in, const struct watch_change *ch)
{
    in->now.known = true;
    in->now.there = ch->kind != WATCH_DELETED;
    memcpy(in->now.hash, ch->hash, sizeof in->now.hash);
    if (ch->size > WATCH_HASH_MAX) {
        print_large(in->now.hash, ch->size, ch->ctime_ns);
    }
    if (in->in.kind != ENV_DIR) {
        in->in.kind = in->now.there ? ENV_FILE : ENV_MISSING;
    }
}

// The first look at a file. Is it still what the build read?
static void take_first(struct env_tracked *in, const struct watch_change *ch)
{
    bool was_there = in->in.kind == ENV_FILE && !in->in.guess;
    in->now = (struct env_print){.known = true};
    in->in.kind = ENV_MISSING;
    if (ch != NULL) {
        take_change(in, ch);
    }
    if (in->fresh) {
        bool later = ch != NULL ? ch->ctime_ns > in->since_ns - ENV_CLOCK_SLACK_NS : was_there;
        in->built = in->now;
        in->built.there = later ? !in->now.there : in->now.there;
        in->fresh = false;
    }
    if (!in->start.known) {
        in->start = in->built;
    }
}

static void on_watch_file(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct env_tracked *in = arg;
    const struct watch_change *mine = NULL;
    const char *name = strrchr(in->in.path, '/');
    (void)w;
    assert(name != NULL);
    for (size_t i = 0; i < batch->n; i++) {
        const char *at = strrchr(batch->changes[i].path, '/');
        mine = at != NULL && strcmp(at, name) == 0 ? &batch->changes[i] : mine;
    }
    if (batch->first) {
        take_first(in, mine);
    } else if (mine != NULL) {
        take_change(in, mine);
    }
    in->set->on_seen(in, mine != NULL ? mine->ctime_ns : 0, in->set->arg);
}

// A directory counts as changed when anything in it changed; the fingerprint is a number.
static void on_watch_dir(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct env_tracked *in = arg;
    bool dirty = !batch->first && batch->n != 0;
    (void)w;
    if (batch->first) {
        in->built = (struct env_print){.known = true, .there = true};
        in->start = in->start.known ? in->start : in->built;
        for (size_t i = 0; in->fresh && i < batch->n; i++) {
            dirty |= batch->changes[i].ctime_ns > in->since_ns - ENV_CLOCK_SLACK_NS;
        }
    }
    in->dirt += dirty;
    in->fresh = false;
    in->now = (struct env_print){.known = true, .there = true};
    memcpy(in->now.hash, &in->dirt, sizeof in->dirt);
    in->set->on_seen(in, batch->n != 0 ? batch->changes[0].ctime_ns : 0, in->set->arg);
}

static void watch_input(struct env_inputs *s, struct env_tracked *in)
{
    struct arena a = {0};
    struct err e = {0};
    bool is_dir = in->in.kind == ENV_DIR, whole = is_dir && strchr(in->in.path, '*') == NULL;
    struct env_pattern p = env_pattern_of(&a, in->in.path);
    struct watch_opts o = {.path = whole ? in->in.path : p.dir,
                           .pattern = whole ? NULL : p.name,
                           .recursive = whole || p.deep};
    vec(const char *) ignore = {0};
    for (const char *const *rule = watch_ignore_default; is_dir && *rule != NULL; rule++) {
        vec_push(&ignore, *rule);
    }
    for (size_t i = 0; is_dir && i < ARRAY_LEN(built_dirs); i++) {
        const char *rel = path_below(o.path, arena_printf(&a, "%s/%s", s->root, built_dirs[i]));
        if (rel != NULL) {
            vec_push(&ignore, arena_printf(&a, "/%s/", rel));
        }
    }
    vec_push(&ignore, NULL);
    o.ignore = ignore.p;
    watch_cb *cb = is_dir ? on_watch_dir : on_watch_file;
    if (s->watcher != NULL && watch_open(&in->watch, s->watcher, &o, cb, in, &e) != 0) {
        s->on_log(str_of(e.msg), s->arg);
    }
    vec_fini(&ignore);
    arena_fini(&a);
}

// ---- what a build says -----------------------------------------------------------------------

static struct env_tracked *find_input(const struct env_inputs *s, const char *path)
{
    return map_get(&s->by_path, str_of(path));
}

struct env_look {
    struct env_inputs *set; // NULL: dropped
    vec(struct env_looked) all;
};

// On a worker. A file whose inode, size and change time are those of the last look has not changed; only others
// are read. The kernel sets the change time itself: no program can set it back.
static void look(void *arg)
{
    struct env_look *k = arg;
    vec_foreach (f, &k->all) {
        struct stat st;
        struct buf bytes = {.max = WATCH_HASH_MAX};
        bool there = stat(f->path, &st) == 0 && S_ISREG(st.st_mode);
        if (there && f->there && f->inode == st.st_ino && f->size == st.st_size &&
            f->changed.tv_sec == st.st_ctim.tv_sec && f->changed.tv_nsec == st.st_ctim.tv_nsec) {
            continue;
        }
        memset(f->hash, 0, sizeof f->hash);
        f->there = there;
        if (!there) {
            continue;
        }
        f->changed = st.st_ctim; // before it is read: a later write is looked at again
        f->inode = st.st_ino;
        f->size = st.st_size;
        if (st.st_size > WATCH_HASH_MAX) {
            int64_t ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
            print_large(f->hash, (uint64_t)st.st_size, ns);
        } else if (path_read(f->path, &bytes, NULL) == 0) {
            sha256_of(buf_str(&bytes), f->hash);
        }
        buf_fini(&bytes);
    }
}

static void on_looked(void *arg)
{
    struct env_look *k = arg;
    struct env_inputs *s = k->set;
    vec_foreach (f, &k->all) {
        struct env_tracked *in = s != NULL ? find_input(s, f->path) : NULL;
        if (in == NULL || in->in.kind == ENV_DIR) {
            continue;
        }
        char *path = in->seen.path;
        in->seen = *f;
        in->seen.path = path;
        if (print_eq(&in->now, &in->asked)) { // else the watcher has said something newer
            in->now = (struct env_print){.known = true, .there = f->there};
            memcpy(in->now.hash, f->hash, sizeof in->now.hash);
            in->in.kind = f->there ? ENV_FILE : ENV_MISSING;
        }
    }
    vec_foreach (f, &k->all) {
        free(f->path);
    }
    vec_fini(&k->all);
    free(k);
    if (s != NULL) {
        s->look = NULL;
        s->on_looked(s->arg);
    }
}

// ---- public ----------------------------------------------------------------------------------

void env_inputs_fini(struct env_inputs *s)
{
    if (s->look != NULL) {
        s->look->set = NULL;
        s->look = NULL;
    }
    vec_foreach (in, &s->all) {
        free_input(*in);
    }
    vec_fini(&s->all);
    map_fini(&s->by_path);
}

bool env_tracked_is_changed(const struct env_tracked *in)
{
    return in->now.known && in->built.known && !print_eq(&in->now, &in->built);
}

bool env_tracked_is_known(const struct env_tracked *in)
{
    return print_eq(&in->now, &in->start);
}

const char *env_tracked_shown(const struct env_tracked *in)
{
    const char *rel = path_below(in->set->root, in->in.path);
    return rel != NULL && rel[0] != '\0' ? rel : in->in.path;
}

bool env_inputs_changed(const struct env_inputs *s)
{
    vec_foreach (in, &s->all) {
        if (env_tracked_is_changed(*in)) {
            return true;
        }
    }
    return false;
}

void env_inputs_begin(struct env_inputs *s)
{
    vec_foreach (in, &s->all) {
        (*in)->start = (*in)->now.known ? (*in)->now : (*in)->start;
    }
}

void env_inputs_add(struct env_inputs *s, const struct env_input *found, uint64_t build,
                    int64_t since_ns)
{
    struct env_tracked *in = find_input(s, found->path);
    const char *rel = path_below(s->root, found->path);
    bool is_new = in == NULL;
    bool passed_over = strncmp(found->path, "/nix/store/", 11) == 0;
    for (size_t i = 0; rel != NULL && i < ARRAY_LEN(built_dirs); i++) {
        passed_over = passed_over || path_below(built_dirs[i], rel) != NULL;
    }
    if (passed_over || (is_new && s->all.n == INPUTS_MAX)) {
        return;
    }
    if (is_new) {
        in = xcalloc(1, sizeof *in);
        in->set = s;
        in->in = *found;
        in->in.path = in->seen.path = xstrdup(found->path);
        vec_push(&s->all, in);
        map_set(&s->by_path, str_of(in->in.path), in);
    }
    in->build = build;
    if ((found->kind == ENV_DIR) != (in->in.kind == ENV_DIR)) { // it became a directory, or was one
        watch_close(in->watch);
        in->watch = NULL;
        in->in.kind = found->kind;
        in->in.guess = found->guess;
        in->fresh = true;
        in->since_ns = since_ns;
        in->built = in->start = in->now = (struct env_print){0};
        watch_input(s, in);
    }
    if (found->hashed || found->kind == ENV_MISSING) { // the builder says what it read
        in->start = (struct env_print){.known = true, .there = found->kind != ENV_MISSING};
        memcpy(in->start.hash, found->hash, sizeof in->start.hash);
    } else if (is_new) {
        in->fresh = true;
        in->since_ns = since_ns;
    }
    if (is_new) {
        in->built = in->start;
        watch_input(s, in);
    }
}

void env_inputs_settle(struct env_inputs *s, uint64_t build, bool ok)
{
    size_t kept = 0;
    vec_foreach (it, &s->all) {
        struct env_tracked *in = *it;
        if (ok && in->build != build) {
            map_remove(&s->by_path, str_of(in->in.path));
            free_input(in);
        } else {
            in->built = in->start;
            s->all.p[kept++] = in;
        }
    }
    s->all.n = kept;
}

void env_inputs_look(struct env_inputs *s)
{
    if (s->look != NULL) {
        return;
    }
    s->look = xcalloc(1, sizeof *s->look);
    s->look->set = s;
    vec_foreach (in, &s->all) {
        if ((*in)->in.kind != ENV_DIR) {
            struct env_looked f = (*in)->seen;
            f.path = xstrdup(f.path);
            (*in)->asked = (*in)->now;
            vec_push(&s->look->all, f);
        }
    }
    work_submit(s->lane, 0, look, on_looked, s->look);
}
