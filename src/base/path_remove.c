// Delete a directory with all that is in it.
//
// A directory in which a model has worked may hold anything: directories nested deeper than a path can be long
// or a process has descriptors, directories without permissions, links that lead out. So removing walks with
// one descriptor at a time and goes back up through `..`, which must be the directory it came from. Nothing
// is ever opened through a link, and other file systems are left.
//
// It does not defend against a process that changes the tree meanwhile, beyond never leaving it.

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"

static int error(void)
{
    return errno != 0 ? -errno : -EIO;
}

/// A stream of the directory `name` in `at`, which must not be a link and, with `dev`, must be on that
/// file system. Its owner gets the right to read, write and search it. NULL with errno.
static DIR *open_dir(int at, const char *name, const dev_t *dev, struct stat *st)
{
    char self[64];
    int fd = -1, path = openat(at, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    if (path < 0) {
        return NULL;
    }
    if (fstat(path, st) == 0 && (dev == NULL || st->st_dev == *dev)) {
        if ((st->st_mode & S_IRWXU) != S_IRWXU) {
            snprintf(self, sizeof self, "/proc/self/fd/%d", path);
            chmod(self, (st->st_mode & 07777) | S_IRWXU); // what follows says if it did not help
        }
        fd = openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } else {
        errno = EXDEV;
    }
    int saved = errno;
    close(path);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && dir == NULL) {
        close(fd);
    }
    errno = dir == NULL ? saved : 0;
    return dir;
}

/// The next entry but `.` and `..`; NULL at the end, with errno 0, or on an error.
static const char *next_name(DIR *dir)
{
    struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(dir); // NOLINT(concurrency-mt-unsafe): a stream of our own
    } while (entry != NULL &&
             (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry != NULL ? entry->d_name : NULL;
}

struct removal_level {
    char *name; // in the directory above
    dev_t dev;  // of that directory
    ino_t ino;
};

struct removal {
    DIR *dir; // where we are
    struct stat st;
    vec(struct removal_level) above;
};

/// Into the directory `name`. The one we are in is closed.
static int descend(struct removal *r, const char *name)
{
    struct stat st;
    DIR *dir = open_dir(dirfd(r->dir), name, &r->st.st_dev, &st);
    if (dir == NULL) {
        return error();
    }
    struct removal_level up = {xstrdup(name), r->st.st_dev, r->st.st_ino};
    vec_push(&r->above, up);
    closedir(r->dir);
    r->dir = dir;
    r->st = st;
    return 0;
}

/// Back up, and remove the directory that we were in.
static int ascend(struct removal *r)
{
    struct removal_level up = vec_pop(&r->above);
    struct stat st;
    DIR *dir = open_dir(dirfd(r->dir), "..", NULL, &st);
    int rc = dir == NULL ? error() : 0;
    if (rc == 0 && (st.st_dev != up.dev || st.st_ino != up.ino)) {
        rc = -EXDEV; // it was moved meanwhile
    }
    if (rc == 0 && unlinkat(dirfd(dir), up.name, AT_REMOVEDIR) != 0) {
        rc = error();
    }
    free(up.name);
    if (dir != NULL) {
        closedir(r->dir);
        r->dir = dir;
        r->st = st;
    }
    return rc;
}

/// One pass over the directory: files go; at the first directory we are in that. `*empty` when
/// there was nothing at all.
static int pass(struct removal *r, bool *empty)
{
    const char *name;
    *empty = true;
    rewinddir(r->dir);
    while ((name = next_name(r->dir)) != NULL) {
        *empty = false;
        if (unlinkat(dirfd(r->dir), name, 0) != 0 && errno != ENOENT) {
            int refused = error();
            int rc = errno == EISDIR || errno == EPERM ? descend(r, name) : refused;
            return rc == -ENOTDIR ? refused : rc; // a file, and why it stays
        }
    }
    return errno != 0 ? error() : 0;
}

int path_remove_tree(const char *path, struct err *e)
{
    struct removal r = {0};
    if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR) {
        return 0;
    }
    int refused = error();
    r.dir = open_dir(AT_FDCWD, path, NULL, &r.st);
    int rc = r.dir != NULL ? 0 : errno == ENOTDIR ? refused : error(); // a file, and why it stays
    for (bool empty = false; rc == 0 && !(empty && r.above.n == 0);) {
        rc = pass(&r, &empty);
        if (rc == 0 && empty && r.above.n != 0) {
            rc = ascend(&r);
            empty = false;
        }
    }
    if (r.dir != NULL) {
        closedir(r.dir);
    }
    vec_foreach (up, &r.above) {
        free(up->name);
    }
    vec_fini(&r.above);
    if (rc == 0 && rmdir(path) != 0 && errno != ENOENT) {
        rc = error();
    }
    return rc == 0 ? 0 : err_set(e, rc, "cannot delete '%s': %s", path, err_text(rc));
}
