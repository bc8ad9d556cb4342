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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"

enum { DEPTH_MAX = 4 };

static bool is_private(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 077) == 0;
}

static int open_dir_at(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// Open a directory that must be ours alone.
static int open_private(const char *path, struct err *e)
{
    struct stat st;
    int fd = open_dir_at(AT_FDCWD, path);
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

/// Remove what is in a directory, at most `depth` levels deep. Takes over `dirfd`.
static void remove_entries(int dirfd, int depth)
{
    struct dirent *entry;
    assert(dirfd >= 0 && depth >= 0);
    DIR *dir = fdopendir(dirfd);
    if (dir == NULL) {
        close(dirfd);
        return;
    }
    while ((entry = readdir(dir)) != NULL) { // NOLINT(concurrency-mt-unsafe): a stream of our own
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(dirfd, name, 0) == 0 ||
            depth == 0) {
            continue;
        }
        int fd = open_dir_at(dirfd, name);
        if (fd >= 0) {
            remove_entries(fd, depth - 1);
            unlinkat(dirfd, name, AT_REMOVEDIR);
        }
    }
    closedir(dir);
}

/// Remove the sessions whose process is gone: their locks are free.
static void sweep(int parent)
{
    struct dirent *entry;
    int copy = dup(parent);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) { // NOLINT(concurrency-mt-unsafe)
        int fd = entry->d_name[0] != '.' ? open_dir_at(parent, entry->d_name) : -1;
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
            remove_entries(fd, DEPTH_MAX);
            unlinkat(parent, entry->d_name, AT_REMOVEDIR);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
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
        sweep(parent);
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
    if (d->fd >= 0) {
        remove_entries(d->fd, DEPTH_MAX);
    }
    if (d->path != NULL) {
        char *parent_path = str_dup(path_dir(str_of(d->path)));
        int parent = open_private(parent_path, NULL);
        rmdir(d->path);
        if (parent >= 0 && flock(parent, LOCK_EX | LOCK_NB) == 0) {
            sweep(parent);
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
