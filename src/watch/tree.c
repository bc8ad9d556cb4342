// The tree of a watch: directories, and the files whose names matter.
//
// A tree may have tens of thousands of directories, so a node is small: a name, its parent and two sorted
// arrays of pointers. Paths are built when needed.
//
//     watch ── root ─┬─ dirs:  [a] [b] ── dirs, files ...
//                    └─ files: [init.lua] [util.lua]
//
// Invariants:
//   - the root lives as long as its watch, whether the directory exists or not.
//   - an array has room for the next power of two of its count, so that no capacity is stored.
//   - a node that a queue or a job points to is not freed but marked dead; the last of them frees it. A dead
//     node has no children, and its parent is never used.

#include <assert.h>

#include "watch/watch_int.h"

/// Where `name` is or belongs in a sorted array of `n` nodes, whose names are at `offset`.
static uint32_t find(void *const *nodes, uint32_t n, size_t offset, const char *name, bool *found)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp((const char *)nodes[middle] + offset, name);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = false;
    return low;
}

static void *insert(void *nodes, uint32_t n, uint32_t at, void *node)
{
    void **p = nodes;
    assert(at <= n);
    if ((n & (n - 1)) == 0) { // full: 0 or a power of two
        p = xreallocarray(p, n == 0 ? 1 : (size_t)n * 2, sizeof *p);
    }
    memmove(p + at + 1, p + at, (n - at) * sizeof *p);
    p[at] = node;
    return p;
}

static void *take_out(void *nodes, uint32_t n, uint32_t at)
{
    void **p = nodes;
    assert(at < n);
    memmove(p + at, p + at + 1, (n - at - 1) * sizeof *p);
    if (n == 1) {
        free(p);
        return NULL;
    }
    return p;
}

static uint32_t dir_find(const struct dir *d, const char *name, bool *found)
{
    return find((void *const *)(const void *)d->dirs, d->n_dirs, offsetof(struct dir, name), name,
                found);
}

static uint32_t file_find(const struct dir *d, const char *name, bool *found)
{
    return find((void *const *)(const void *)d->files, d->n_files,
                offsetof(struct watch_file, name), name, found);
}

struct dir *tree__dir_new(struct watch *w, struct dir *parent, const char *name)
{
    size_t n = strlen(name) + 1;
    struct dir *d = xcalloc(1, sizeof *d + n);
    d->seat = (struct seat){.wd = -1, .kind = SEAT_DIR};
    d->watch = w;
    d->parent = parent;
    memcpy(d->name, name, n);
    w->n_dirs++;
    return d;
}

struct dir *tree__dir(struct dir *d, const char *name, bool make)
{
    bool found;
    uint32_t at = dir_find(d, name, &found);
    if (found || !make || d->watch->n_dirs >= DIRS_MAX) {
        return found ? d->dirs[at] : NULL;
    }
    struct dir *child = tree__dir_new(d->watch, d, name);
    d->dirs = insert(d->dirs, d->n_dirs++, at, child);
    return child;
}

struct watch_file *tree__file(struct dir *d, const char *name, bool make)
{
    bool found;
    uint32_t at = file_find(d, name, &found);
    if (!found && make) {
        size_t n = strlen(name) + 1;
        struct watch_file *f = xcalloc(1, sizeof *f + n);
        f->dir = d;
        memcpy(f->name, name, n);
        d->files = insert(d->files, d->n_files++, at, f);
        d->watch->n_files++;
    }
    return found || make ? d->files[at] : NULL;
}

void tree__dir_drop(struct dir *d)
{
    struct watch *w = d->watch;
    while (d->n_dirs != 0) {
        tree__dir_drop(d->dirs[d->n_dirs - 1]);
    }
    while (d->n_files != 0) {
        tree__file_drop(d->files[d->n_files - 1]);
    }
    notify__unseat(w->owner, &d->seat);
    notify__anchors_drop(w->owner, &d->anchors);
    tree__dir_sweep(d, false);
    if (d->parent != NULL) {
        bool found;
        uint32_t at = dir_find(d->parent, d->name, &found);
        assert(found);
        d->parent->dirs = take_out(d->parent->dirs, d->parent->n_dirs, at);
        d->parent->n_dirs--;
    }
    assert(w->n_dirs != 0);
    w->n_dirs--;
    d->seat.flags |= DIR_DEAD;
    tree__dir_release(d);
}

void tree__file_drop(struct watch_file *f)
{
    struct dir *d = f->dir;
    bool found;
    uint32_t at = file_find(d, f->name, &found);
    assert(found);
    notify__anchors_drop(d->watch->owner, &f->anchors);
    d->files = take_out(d->files, d->n_files, at);
    d->n_files--;
    d->watch->n_files--;
    f->flags |= FILE_DEAD;
    tree__file_release(f);
}

void tree__dir_release(struct dir *d)
{
    if ((d->seat.flags & DIR_DEAD) != 0 && (d->seat.flags & (DIR_QUEUED | DIR_BUSY)) == 0) {
        free(d);
    }
}

void tree__file_release(struct watch_file *f)
{
    if ((f->flags & FILE_DEAD) != 0 && (f->flags & (FILE_PENDING | FILE_BUSY)) == 0) {
        free(f);
    }
}

void tree__dir_sweep(struct dir *d, bool on)
{
    bool was = (d->seat.flags & DIR_SWEPT) != 0;
    if (on && !was) {
        d->seat.flags |= DIR_SWEPT;
        d->watch->n_swept++;
    } else if (!on && was) {
        d->seat.flags &= (uint8_t)~DIR_SWEPT;
        assert(d->watch->n_swept != 0);
        d->watch->n_swept--;
    }
}

void tree__dir_prune(struct dir *d)
{
    while (d->parent != NULL && d->anchors == NULL && d->seat.wd < 0 &&
           d->n_files + d->n_dirs == 0 &&
           (d->seat.flags & (DIR_QUEUED | DIR_BUSY | DIR_SWEPT)) == 0) {
        struct dir *parent = d->parent;
        tree__dir_drop(d);
        d = parent;
    }
}

static void add_name(struct buf *b, const char *name)
{
    buf_addz(b, str_ends(buf_str(b), "/") ? "" : "/"); // the path may be "/"
    buf_addz(b, name);
}

static void add_path(struct buf *b, const struct dir *d)
{
    if (d->parent == NULL) {
        buf_addz(b, d->watch->opts.path);
    } else {
        add_path(b, d->parent);
        add_name(b, d->name);
    }
}

char *tree__path(const struct dir *d, const char *name)
{
    struct buf b = {.max = SIZE_MAX};
    add_path(&b, d);
    if (name != NULL) {
        add_name(&b, name);
    }
    return buf_take(&b, NULL);
}

void tree__walk(struct dir *d, void (*fn)(struct dir *d))
{
    fn(d);
    for (uint32_t i = 0; i < d->n_dirs; i++) {
        tree__walk(d->dirs[i], fn);
    }
}
