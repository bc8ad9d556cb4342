// Look at files, on a worker.
//
// A file whose inode, size and change time are those of the last look has not changed; only others are read.
// The kernel sets the change time itself: no program can set it back.

#include "env/look.h"

#include <errno.h>

#include "base/path.h"
#include "base/vec.h"
#include "watch/watch.h"

struct env_look {
    struct env_looked *all;
    size_t n;
    env_look_fn *fn; // NULL: dropped
    void *arg;
};

static void look(void *arg)
{
    struct env_look *k = arg;
    for (struct env_looked *f = k->all; f < k->all + k->n; f++) {
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
        if (path_read(f->path, &bytes, NULL) == 0) {
            sha256_of(buf_str(&bytes), f->hash);
        }
        buf_fini(&bytes);
    }
}

static void on_looked(void *arg)
{
    struct env_look *k = arg;
    if (k->fn != NULL) {
        k->fn(k->all, k->n, k->arg);
    }
    for (size_t i = 0; i < k->n; i++) {
        free(k->all[i].path);
    }
    free(k->all);
    free(k);
}

struct env_look *env_look_start(struct lane *lane, const struct env_looked *all, size_t n,
                                env_look_fn *fn, void *arg)
{
    struct env_look *k = xcalloc(1, sizeof *k);
    *k = (struct env_look){.all = xcalloc(n + 1, sizeof *all), .n = n, .fn = fn, .arg = arg};
    for (size_t i = 0; i < n; i++) {
        k->all[i] = all[i];
        k->all[i].path = xstrdup(all[i].path);
    }
    work_submit(lane, 0, look, on_looked, k);
    return k;
}

void env_look_drop(struct env_look *k)
{
    if (k != NULL) {
        k->fn = NULL;
    }
}
