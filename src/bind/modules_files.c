// The files of the roots: which file is which module, and its text as it was hashed.
//
//     watcher ── a change with its bytes ──┐
//                                          ├──> texts of each root ──> files__find("lib.x")
//     scan (thread) ── stat, read, hash ───┘
//
// Saves arrive through the watcher. A reload that a user asks for must not depend on when the watcher reports, so it scans
// the roots itself, on a thread: it calls stat first, and reads and hashes the files that may have changed. The hashed text
// is the one that runs; it is never read again.
//
// One file is one module: lib/x.lua is "lib.x" and nothing else, foo/init.lua is "foo". The two entry points keep their
// usual names, "user.init" and "hub.init".
//
// Invariants:
//   - a text never changes; a file that does gets another one.
//   - when the watcher and a scan read the same file, the newer text counts, whichever arrives first; the file's ctime
//     decides.
//   - a stamp is kept only if the file had not changed for REST_MS: two writes within one tick of the file system's clock
//     have the same stamp.

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/time.h"
#include "bind/modules_int.h"
#include "bind/shipped.h"
#include "loop/work.h"
#include "plugin/past.h"
#include "watch/watch.h"

enum { REST_MS = 100 };

static const char *const layers[] = {[ROOT_USER] = "user", [ROOT_SHIPPED] = "shipped"};

/// A text that is used instead of a user's file.
struct files__cover {
    struct files__text *over; // the file that it covers; NULL: there is none
    struct files__text *text; // NULL: the file counts as deleted
};

struct files__stamp {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

// ---- texts ----------------------------------------------------------------------------------

static struct files__text *text_new(const char *path, int root, struct str bytes, const char *fault)
{
    struct files__text *t = xcalloc(1, sizeof *t);
    t->refs = 1;
    t->path = xstrdup(path);
    t->layer = layers[root];
    t->bytes = bytes;
    t->fault = fault != NULL ? xstrdup(fault) : NULL;
    sha256_of(fault == NULL ? bytes : str_of(fault), t->hash);
    return t;
}

bool files__is_users(const struct files__text *t)
{
    return t->layer == layers[ROOT_USER];
}

const char *files__text_id(struct files__text *t)
{
    if (t->id[0] == '\0') {
        past_hash(t->path, t->bytes, t->id);
    }
    return t->id;
}

struct files__text *files__text_copy(const char *path, int root, struct str bytes)
{
    char *copy = str_dup(bytes);
    struct files__text *t = text_new(path, root, (struct str){copy, bytes.n}, NULL);
    t->owned = copy;
    return t;
}

struct files__text *files__text_ref(struct files__text *t)
{
    if (t != NULL) {
        t->refs++;
    }
    return t;
}

void files__text_unref(struct files__text *t)
{
    assert(t == NULL || t->refs > 0);
    if (t == NULL || --t->refs != 0) {
        return;
    }
    free(t->owned);
    free(t->fault);
    free(t->path);
    free(t);
}

bool files__text_same(const struct files__text *a, const struct files__text *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    return memcmp(a->hash, b->hash, SHA256_SIZE) == 0 && strcmp(a->path, b->path) == 0;
}

/// The file at `rel` has the text `t` now, which is taken over (NULL: it is gone). If the text is the same, the old one
/// stays.
static void put_text(struct files__root *r, struct str rel, struct files__text *t)
{
    struct files__text *had = map_get(&r->texts, rel);
    free(map_remove(&r->stamps, rel));
    if (t == NULL) {
        files__text_unref(map_remove(&r->texts, rel));
    } else if (had != NULL && files__text_same(had, t)) {
        files__text_unref(t);
    } else {
        files__text_unref(map_set(&r->texts, rel, t));
    }
}

// ---- names ----------------------------------------------------------------------------------

bool files__is_name(struct str name)
{
    bool ok = name.n != 0 && name.n <= 200 && name.p[name.n - 1] != '.', begins = true;
    for (size_t i = 0; i < name.n && ok; i++) {
        char c = name.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-';
        ok = word || (c == '.' && !begins);
        begins = c == '.';
    }
    return ok;
}

char *files__module_of(struct str rel)
{
    if (!str_ends(rel, ".lua")) {
        return NULL;
    }
    char *name = xstrndup(rel.p, rel.n - 4);
    for (char *p = name; *p != '\0'; p++) {
        *p = *p == '/' ? '.' : *p == '.' ? '/' : *p; // a file name with a dot is not a module
    }
    struct str s = str_of(name);
    if (str_ends(s, ".init") && !str_eqz(s, "user.init") && !str_eqz(s, "hub.init")) {
        name[s.n - 5] = '\0';
    }
    if (!files__is_name(str_of(name))) {
        free(name);
        return NULL;
    }
    return name;
}

static struct files__text *find_at(const struct files__root *r, struct str name, const char *tail)
{
    char rel[256];
    snprintf(rel, sizeof rel, STR_FMT "%s", STR_ARG(name), tail);
    for (size_t i = 0; i < name.n; i++) {
        rel[i] = rel[i] == '.' ? '/' : rel[i];
    }
    char *means = files__module_of(str_of(rel));
    bool ours = means != NULL && str_eqz(name, means);
    free(means);
    return ours ? map_get(&r->texts, str_of(rel)) : NULL;
}

static struct files__text *find_in(const struct files *f, int root, struct str name)
{
    struct files__text *t = find_at(&f->roots[root], name, ".lua");
    return t != NULL ? t : find_at(&f->roots[root], name, "/init.lua");
}

struct files__text *files__users(const struct files *f, struct str name)
{
    return files__is_name(name) ? find_in(f, ROOT_USER, name) : NULL;
}

struct files__text *files__find(const struct files *f, struct str name)
{
    if (!files__is_name(name)) {
        return NULL;
    }
    const struct files__cover *c = f->covers.n != 0 ? map_get(&f->covers, name) : NULL;
    struct files__text *t = find_in(f, ROOT_USER, name);
    if (c != NULL && files__text_same(c->over, t)) {
        t = c->text;
    }
    return t != NULL ? t : find_in(f, ROOT_SHIPPED, name);
}

// ---- covers ---------------------------------------------------------------------------------

static void cover_free(struct files__cover *c)
{
    if (c != NULL) {
        files__text_unref(c->over);
        files__text_unref(c->text);
        free(c);
    }
}

void files__cover(struct files *f, struct str name, const char *path, struct str bytes)
{
    struct files__cover *c = xcalloc(1, sizeof *c);
    c->over = files__text_ref(files__users(f, name));
    c->text = path != NULL ? files__text_copy(path, ROOT_USER, bytes) : NULL;
    cover_free(map_set(&f->covers, name, c));
}

void files__uncover(struct files *f, struct str name)
{
    cover_free(map_remove(&f->covers, name));
}

bool files__is_covered(const struct files *f, struct str name)
{
    const struct files__cover *c = f->covers.n != 0 ? map_get(&f->covers, name) : NULL;
    return c != NULL && files__text_same(c->over, files__users(f, name));
}

bool files__next_cover(const struct files *f, size_t *at, struct str *name)
{
    void *c;
    return map_next(&f->covers, at, name, &c);
}

void files__expand(const struct files *f, struct str pattern, files__names *out)
{
    for (int i = 0; i < ROOT__COUNT; i++) {
        struct str rel;
        void *t;
        for (size_t at = 0; map_next(&f->roots[i].texts, &at, &rel, &t);) {
            char *name = files__module_of(rel);
            bool wanted = name != NULL && str_glob(pattern, str_of(name));
            vec_foreach (have, out) {
                wanted = wanted && strcmp(*have, name) != 0;
            }
            if (wanted) {
                vec_push(out, name);
            } else {
                free(name);
            }
        }
    }
    str_sort((void *)out->p, out->n);
}

// ---- life -----------------------------------------------------------------------------------

void files__init(struct files *f, const char *user_dir, const char *dev_dir)
{
    *f = (struct files){0};
    f->roots[ROOT_USER].dir = user_dir != NULL ? xstrdup(user_dir) : NULL;
    f->roots[ROOT_SHIPPED].dir = dev_dir != NULL ? xstrdup(dev_dir) : NULL;
    for (const struct shipped *s = shipped_lua; dev_dir == NULL && s->rel != NULL; s++) {
        char *path = xasprintf("builtin/%s", s->rel);
        put_text(&f->roots[ROOT_SHIPPED], str_of(s->rel),
                 text_new(path, ROOT_SHIPPED, (struct str){s->text, s->n}, NULL));
        free(path);
    }
}

void files__fini(struct files *f)
{
    map_fini_each(&f->covers, cover_free);
    for (int i = 0; i < ROOT__COUNT; i++) {
        struct files__root *r = &f->roots[i];
        map_fini_each(&r->texts, files__text_unref);
        map_fini_each(&r->stamps, free);
        map_fini(&r->fresh);
        free(r->dir);
    }
}

/// Is a text of that time older than the one we have?
static bool is_older(const struct files__root *r, struct str rel, int64_t ctime_ns)
{
    const struct files__text *known = map_get(&r->texts, rel);
    return known != NULL && known->ctime_ns > ctime_ns;
}

bool files__apply(struct files *f, int root, const struct watch_change *c)
{
    struct files__root *r = &f->roots[root];
    struct str rel = str_from(str_of(c->path), strlen(r->dir) + 1);
    struct files__text *t = NULL;
    bool was_there = map_get(&r->texts, rel) != NULL;
    if (c->kind != WATCH_DELETED && c->bytes.p != NULL) {
        t = files__text_copy(c->path, root, c->bytes);
    } else if (c->kind != WATCH_DELETED) {
        t = text_new(c->path, root, STR_NULL, "the file cannot be read or is over 1 MiB");
    }
    if (f->scanning) {
        map_set(&r->fresh, rel, f);
    }
    if (t != NULL && is_older(r, rel, c->ctime_ns)) {
        files__text_unref(t);
        return false;
    }
    if (t != NULL) {
        t->ctime_ns = c->ctime_ns;
    }
    put_text(r, rel, t);
    return was_there != (t != NULL);
}

// ---- scan: on a thread ----------------------------------------------------------------------

struct found {
    char *rel;
    struct files__stamp stamp;
    bool rested;              // its stamp can be trusted
    struct files__text *text; // NULL: as it was read last
};

struct scan_root {
    char *dir;
    struct map known; // stamps, copied
    vec(struct found) found;
    size_t n_dirs; // links can make a small tree endless
    bool whole;    // everything was seen
    bool full;     // there is more than is looked at
};

struct scan {
    struct files *files;
    files__scan_done *done;
    void *arg;
    int64_t rested_ns; // what changed before this had rested
    struct scan_root roots[ROOT__COUNT];
};

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void scan_file(struct scan *s, struct scan_root *r, const char *rel, const char *path,
                      const struct stat *st)
{
    struct found f = {.rel = xstrdup(rel),
                      .stamp = {.dev = st->st_dev,
                                .ino = st->st_ino,
                                .size = (uint64_t)st->st_size,
                                .mtime_ns = ns_of(st->st_mtim),
                                .ctime_ns = ns_of(st->st_ctim)}};
    const struct files__stamp *known = map_get(&r->known, str_of(rel));
    f.rested = f.stamp.ctime_ns < s->rested_ns;
    if (known == NULL || memcmp(known, &f.stamp, sizeof f.stamp) != 0) {
        int root = (int)(r - s->roots);
        struct buf bytes = {.max = FILES_BYTES_MAX};
        struct err e = {0};
        if (path_read(path, &bytes, &e) < 0) {
            f.text = text_new(path, root, STR_NULL,
                              e.code == ERR_TOO_LARGE ? "the file is over 1 MiB" : e.msg);
        } else {
            f.text = files__text_copy(path, root, buf_str(&bytes));
        }
        f.text->ctime_ns = f.stamp.ctime_ns;
        buf_fini(&bytes);
    }
    vec_push(&r->found, f);
}

/// A directory that is being read, and those above it.
struct level {
    const char *dir, *rel;
    uint64_t dev, ino;
    int depth;
    const struct level *up;
};

static void scan_dir(struct scan *s, struct scan_root *r, struct level *here);

static void scan_entry(struct scan *s, struct scan_root *r, const struct level *in,
                       const char *name)
{
    struct stat st;
    char *path = path_join(in->dir, name);
    char *rel = in->rel[0] != '\0' ? path_join(in->rel, name) : xstrdup(name);
    bool seen = stat(path, &st) == 0;
    bool lua = seen && S_ISREG(st.st_mode) && str_ends(str_of(rel), ".lua");
    bool enter =
        seen && S_ISDIR(st.st_mode) && in->depth < FILES_DEPTH && strcmp(rel, "improvements") != 0;
    for (const struct level *v = in; enter && v != NULL; v = v->up) {
        enter = v->dev != st.st_dev || v->ino != st.st_ino; // not what a link leads back to
    }
    if (enter) {
        scan_dir(s, r, &(struct level){.dir = path, .rel = rel, .depth = in->depth + 1, .up = in});
    } else if (lua && r->found.n < FILES_MAX) {
        scan_file(s, r, rel, path, &st);
    } else {
        r->full = r->full || lua;
    }
    free(path);
    free(rel);
}

static void scan_dir(struct scan *s, struct scan_root *r, struct level *here)
{
    struct stat st;
    r->full = r->full || r->n_dirs == FILES_MAX;
    DIR *d = r->n_dirs < FILES_MAX ? opendir(here->dir) : NULL;
    if (d == NULL || fstat(dirfd(d), &st) < 0) {
        r->whole = r->whole && r->n_dirs < FILES_MAX && (errno == ENOENT || errno == ENOTDIR);
        if (d != NULL) {
            closedir(d);
        }
        return;
    }
    r->n_dirs++;
    here->dev = st.st_dev;
    here->ino = st.st_ino;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.') {
            scan_entry(s, r, here, e->d_name);
        }
    }
    closedir(d);
}

static void scan_work(void *arg)
{
    struct scan *s = arg;
    for (int i = 0; i < ROOT__COUNT; i++) {
        if (s->roots[i].dir != NULL) {
            scan_dir(s, &s->roots[i], &(struct level){.dir = s->roots[i].dir, .rel = ""});
        }
    }
}

// ---- scan: on the loop ----------------------------------------------------------------------

static void take_found(struct files__root *r, struct found *f)
{
    struct str rel = str_of(f->rel);
    bool gone = map_get(&r->fresh, rel) != NULL && map_get(&r->texts, rel) == NULL;
    if (f->text == NULL || gone || is_older(r, rel, f->stamp.ctime_ns)) {
        return;
    }
    put_text(r, rel, files__text_ref(f->text));
    if (f->rested && f->text->fault == NULL) {
        struct files__stamp *stamp = xmalloc(sizeof *stamp);
        *stamp = f->stamp;
        map_set(&r->stamps, rel, stamp);
    }
}

/// Remove the files that the scan did not find.
static void drop_missing(struct files__root *r, struct scan_root *seen)
{
    struct map here;
    struct str rel;
    void *t;
    map_init(&here);
    vec_foreach (f, &seen->found) {
        map_set(&here, str_of(f->rel), f);
    }
    for (size_t at = 0; map_next(&r->texts, &at, &rel, &t);) {
        if (map_get(&here, rel) == NULL && map_get(&r->fresh, rel) == NULL) {
            free(map_remove(&r->stamps, rel));
            map_remove(&r->texts, rel);
            files__text_unref(t);
        }
    }
    map_fini(&here);
}

static void on_scanned(void *arg)
{
    struct scan *s = arg;
    struct files *f = s->files;
    f->scanning = false;
    for (int i = 0; i < ROOT__COUNT; i++) {
        struct scan_root *seen = &s->roots[i];
        vec_foreach (found, &seen->found) {
            take_found(&f->roots[i], found);
        }
        if (seen->dir != NULL) {
            f->roots[i].full = seen->full;
            if (seen->whole && !seen->full) {
                drop_missing(&f->roots[i], seen);
            }
        }
        map_fini(&f->roots[i].fresh);
        vec_foreach (found, &seen->found) {
            free(found->rel);
            files__text_unref(found->text);
        }
        vec_fini(&seen->found);
        map_fini_each(&seen->known, free);
        free(seen->dir);
    }
    files__scan_done *done = s->done;
    void *done_arg = s->arg;
    free(s);
    done(done_arg);
}

void files__scan(struct files *f, struct lane *lane, files__scan_done *done, void *arg)
{
    struct scan *s = xcalloc(1, sizeof *s);
    s->files = f;
    s->done = done;
    s->arg = arg;
    s->rested_ns = (time_wall_ms() - REST_MS) * 1000000;
    for (int i = 0; i < ROOT__COUNT; i++) {
        struct scan_root *r = &s->roots[i];
        struct str rel;
        void *stamp;
        r->dir = f->roots[i].dir != NULL ? xstrdup(f->roots[i].dir) : NULL;
        r->whole = true;
        for (size_t at = 0; map_next(&f->roots[i].stamps, &at, &rel, &stamp);) {
            struct files__stamp *copy = xmalloc(sizeof *copy);
            memcpy(copy, stamp, sizeof *copy);
            map_set(&r->known, rel, copy);
        }
    }
    assert(!f->scanning);
    f->scanning = true;
    work_submit(lane, 0, scan_work, on_scanned, s);
}
