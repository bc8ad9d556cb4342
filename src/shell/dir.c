// The private directory of a shell session.
//
//     $AFLOAT_RUNTIME/shell/     locked while a session's directory is made or removed
//         qX3f9a/                locked by its session for as long as that lives
//
// The directories themselves are locked (flock), so a lock ends with its process, however that ends. A
// session that was killed cannot clean up: the next one sees that its lock is free and does it, when it
// starts and again when it ends. Both are needed: one that starts right after a kill may find the lock still
// held, by the dying process or by a child of it that has not called exec yet.
//
// A shell evaluates what is in here, so no other user may have access: every step uses a descriptor that
// was opened without following links and checked with fstat.

#include "shell/dir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"

static bool is_private(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 077) == 0;
}

static int open_dir(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// Open a directory that must be ours alone.
static int open_private(const char *path, struct err *e)
{
    struct stat st;
    int fd = open_dir(path);
    if (fd < 0) {
        return errno == ELOOP || errno == ENOTDIR
                   ? err_set(e, ERR_DENIED, "'%s' is in the way and is no directory; remove it",
                             path)
                   : err_sys(e, "cannot open '%s'", path);
    }
    if (fstat(fd, &st) != 0 || !is_private(&st)) {
        close(fd);
        return err_set(e, ERR_DENIED,
                       "others have access to '%s'; type 'chmod 700 %s', or remove it", path, path);
    }
    return fd;
}

// ---- removing ------------------------------------------------------------------------------

/// Remove the sessions in `path` whose process is gone: their locks are free. The directory is ours alone.
static void sweep(const char *path)
{
    struct folder f = folder_open(path);
    while (folder_next(&f)) {
        char *session = path_join(path, f.name);
        int fd = f.name[0] != '.' ? open_dir(session) : -1;
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
            (void)!path_remove_tree(session, NULL);
        }
        if (fd >= 0) {
            close(fd);
        }
        free(session);
    }
}

// ---- public --------------------------------------------------------------------------------

/// Make `path`, where XXXXXX at the end stands for any name if so wanted, and lock it. The parent must be
/// ours alone; what dead processes left there is removed first.
static int make_in(struct shell_dir *d, const char *parent_path, const char *path, bool any_name,
                   struct err *e)
{
    *d = (struct shell_dir){.fd = -1};
    int parent = open_private(parent_path, e);
    int rc = parent < 0                    ? parent
             : flock(parent, LOCK_EX) == 0 ? 0
                                           : err_sys(e, "cannot lock '%s'", parent_path);
    if (rc == 0) {
        sweep(parent_path);
        char *made = xstrdup(path);
        if (any_name ? mkdtemp(made) == NULL : mkdir(made, 0700) != 0) {
            rc = err_sys(e, "cannot make '%s'", path);
            free(made);
        } else {
            d->path = made;
            d->id = strrchr(d->path, '/') + 1;
            d->fd = open_private(d->path, e);
            rc = d->fd < 0 ? d->fd : 0;
        }
    }
    if (rc == 0 && flock(d->fd, LOCK_EX | LOCK_NB) != 0) {
        rc = err_sys(e, "cannot lock '%s'", d->path);
    }
    if (rc < 0) {
        shell_dir_close(d);
    }
    if (parent >= 0) {
        close(parent);
    }
    return rc;
}

int shell_dir_open(struct shell_dir *d, const char *runtime, struct err *e)
{
    char *parent = path_join(runtime, "shell"), *path = path_join(parent, "XXXXXX");
    *d = (struct shell_dir){.fd = -1};
    int rc = path_mkdirs(parent, 0700, e);
    rc = rc == 0 ? make_in(d, parent, path, true, e) : rc;
    free(path);
    free(parent);
    return rc;
}

int shell_dir_make(struct shell_dir *d, const char *path, struct err *e)
{
    char *parent = str_dup(path_dir(str_of(path)));
    int rc = make_in(d, parent, path, false, e);
    free(parent);
    return rc;
}

void shell_dir_close(struct shell_dir *d)
{
    assert(d->fd < 0 || d->path != NULL);
    if (d->path != NULL) {
        char *parent_path = str_dup(path_dir(str_of(d->path)));
        int parent = open_private(parent_path, NULL);
        if (d->fd >= 0) {
            (void)!path_remove_tree(d->path, NULL);
            close(d->fd);
        } else {
            rmdir(d->path);
        }
        if (parent >= 0 && flock(parent, LOCK_EX | LOCK_NB) == 0) {
            sweep(parent_path);
        }
        if (parent >= 0) {
            close(parent);
        }
        free(parent_path);
    }
    free(d->path);
    *d = (struct shell_dir){.fd = -1};
}

bool shell_dir_is_private(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && is_private(&st);
}
