// Snapshots of a checkout.
//
// Only what git does not have is kept: changed and untracked files, and ignored ones in directories of
// tracked ones. So a clean checkout of any size costs nothing but git's look at it.

#include "rewind/snapshot.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/path.h"

enum { FILES_MAX = 20000 };

void snapshot_fini(struct snapshot *s)
{
    vec_foreach (f, &s->files) {
        free(f->path);
    }
    vec_fini(&s->files);
    free(s->root);
    free(s->head);
    *s = (struct snapshot){0};
}

static int64_t as_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_path(const void *key, const void *file)
{
    return strcmp(key, ((const struct snapshot_file *)file)->path);
}

static const struct snapshot_file *find(const struct snapshot *s, const char *path)
{
    return s->files.n == 0 ? NULL
                           : bsearch(path, s->files.p, s->files.n, sizeof *s->files.p, by_path);
}

int snapshot_take(struct snapshot *out, const struct snapshot *old, const struct git_status *status,
                  const struct kept_store *store, struct err *e)
{
    int rc = 0, dirfd = open(status->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *out = (struct snapshot){.root = xstrdup(status->root), .head = xstrdup(status->head)};
    if (dirfd < 0) {
        return err_sys(e, "cannot open '%s'", status->root);
    }
    if (status->n > FILES_MAX) {
        rc = err_set(e, ERR_TOO_LARGE, "%zu files are not committed; at most %d are kept",
                     status->n, FILES_MAX);
    }
    for (size_t i = 0; rc == 0 && i < status->n; i++) {
        struct snapshot_file f = {.path = xstrdup(status->p[i].path)};
        const struct snapshot_file *was = find(old, f.path);
        struct stat st;
        if (fstatat(dirfd, f.path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            f.stamp = (struct snapshot_stamp){st.st_dev,  st.st_ino,         (uint64_t)st.st_size,
                                              st.st_mode, as_ns(st.st_mtim), as_ns(st.st_ctim)};
        }
        if (was != NULL && f.stamp.ino != 0 && memcmp(&was->stamp, &f.stamp, sizeof f.stamp) == 0) {
            f.state = was->state;
        } else {
            rc = kept_look(store, dirfd, f.path, &f.state, e);
        }
        vec_push(&out->files, f);
    }
    close(dirfd);
    return rc;
}

void snapshot_compare(const struct snapshot *old, const struct snapshot *now,
                      const struct git_status *status, struct arena *a, rewind_changes *out)
{
    int dirfd = open(now->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *base = arena_strdup(a, str_of(now->root));
    for (size_t i = 0; i < now->files.n; i++) {
        const struct snapshot_file *f = &now->files.p[i], *was = find(old, f->path);
        struct rewind_change c = {
            .base = base, .path = arena_strdup(a, str_of(f->path)), .after = f->state};
        assert(strcmp(status->p[i].path, f->path) == 0);
        if (was != NULL) {
            c.before = was->state;
        } else {
            c.open = status->p[i].in_head;
        }
        if (c.open || !kept_same(&c.before, &c.after)) {
            vec_push(out, c);
        }
    }
    vec_foreach (was, &old->files) { // dirty before, and now as in the commit or gone
        struct rewind_change c = {
            .base = base, .path = arena_strdup(a, str_of(was->path)), .before = was->state};
        if (find(now, was->path) == NULL &&
            kept_look(NULL, dirfd, was->path, &c.after, NULL) == 0 &&
            !kept_same(&c.before, &c.after)) {
            vec_push(out, c);
        }
    }
    if (dirfd >= 0) {
        close(dirfd);
    }
}

int snapshot_save(const struct snapshot *s, const char *path, struct err *e)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    jw_obj(&w);
    jw_kstrz(&w, "head", s->head);
    rewind_changes files = {0};
    vec_foreach (f, &s->files) {
        struct rewind_change c = {.path = f->path, .before = f->state, .open = true};
        vec_push(&files, c);
    }
    rewind_write_changes(&w, s->root, files.p, files.n);
    vec_fini(&files);
    jw_end_obj(&w);
    int rc = path_write_atomic(path, buf_str(&out), 0600, e);
    buf_fini(&out);
    return rc;
}

void snapshot_load(struct snapshot *s, const char *path)
{
    struct arena a = {0};
    struct buf text = {.max = SIZE_MAX};
    struct json *v = NULL;
    rewind_changes files = {0};
    *s = (struct snapshot){0};
    if (path_read(path, &text, NULL) == 0 && json_parse(&v, &a, buf_str(&text), NULL, NULL) == 0) {
        s->root = str_dup(json_get_text(v, "base"));
        s->head = str_dup(json_get_text(v, "head"));
        rewind_read_changes(v, &a, &files);
        vec_foreach (c, &files) {
            struct snapshot_file f = {.path = xstrdup(c->path), .state = c->before};
            vec_push(&s->files, f);
        }
    }
    vec_fini(&files);
    buf_fini(&text);
    arena_fini(&a);
}
