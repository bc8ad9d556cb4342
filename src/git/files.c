// Files and directories, without git.
//
// A worktree in which a model has worked may hold anything: directories nested deeper than a path can be long
// or a process has descriptors, directories without permissions, links that lead out. So removing walks with
// one descriptor at a time and goes back up through `..`, which must be the directory it came from. Nothing
// is ever opened through a link.
//
// It does not defend against a process that changes the tree meanwhile, beyond never leaving it.

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "git/git_int.h"

enum { DEPTH_MAX = 128, ENTRIES_MAX = 2000000, COPY_MAX = 1 << 20 };

static int error(void)
{
    return errno != 0 ? -errno : UV_EIO;
}

// ---- walking ---------------------------------------------------------------------------------

/// A stream of the directory `name` in `at`, which must be no link and, with `dev`, lie on that
/// file system. One that its owner may not search is opened up. NULL with errno.
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

// ---- removing --------------------------------------------------------------------------------

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
        rc = UV_EXDEV; // it was moved meanwhile
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
            return errno == EISDIR || errno == EPERM ? descend(r, name) : error();
        }
    }
    return errno != 0 ? error() : 0;
}

int files__remove(const char *path, struct err *e)
{
    struct removal r = {0};
    if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR) {
        return 0;
    }
    r.dir = open_dir(AT_FDCWD, path, NULL, &r.st);
    int rc = r.dir == NULL ? error() : 0;
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
    return rc == 0 ? 0 : err_set(e, rc, "cannot remove '%s': %s", path, err_text(rc));
}

// ---- copying ---------------------------------------------------------------------------------

static int copy_bytes(int from, int to)
{
    char *chunk = xmalloc(COPY_MAX);
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = read(from, chunk, COPY_MAX)) != 0) {
        for (ssize_t done = 0, w = 0; n > 0 && done < n && rc == 0; done += w) {
            w = write(to, chunk + done, (size_t)(n - done));
            rc = w < 0 ? error() : 0;
        }
        rc = n < 0 ? error() : rc;
    }
    free(chunk);
    return rc;
}

/// Copy `from` to `to` (negative: errno says why), close both; the mode and times follow the bytes.
static int copy_open(int from, int to)
{
    struct stat st;
    assert(from >= 0);
    int rc = to < 0                  ? error()
             : fstat(from, &st) != 0 ? error()
             : !S_ISREG(st.st_mode)  ? UV_EINVAL
                                     : copy_bytes(from, to);
    if (rc == 0) {
        struct timespec times[] = {st.st_atim, st.st_mtim};
        rc = fchmod(to, st.st_mode & 0777) != 0 || futimens(to, times) != 0 ? error() : 0;
    }
    close(from);
    if (to >= 0 && close(to) != 0 && rc == 0) {
        rc = error();
    }
    return rc;
}

int files__copy(const char *from, const char *to, int flags, struct err *e)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | flags);
    if (in < 0) {
        return errno == ENOENT ? 0 : err_sys(e, "cannot open '%s'", from);
    }
    int rc = copy_open(in, open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return rc == 0 ? 0 : err_set(e, rc, "cannot copy '%s': %s", from, err_text(rc));
}

/// The directory that `name` lies in, made where it is missing, and the last part of `name`.
static int open_parent(int dir, const char *name, const char **last)
{
    struct str rest = str_of(name), part;
    int at = dup(dir);
    *last = name;
    while (at >= 0 && (part = str_cut(&rest, '/'), rest.p != NULL)) {
        char *sub = str_dup(part);
        mkdirat(at, sub, 0755); // there already, or the next call says why not
        int next = openat(at, sub, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
        int saved = errno;
        close(at);
        errno = saved;
        at = next;
        free(sub);
        *last = rest.p;
    }
    return at >= 0 ? at : error();
}

static int carry_file(int from, const char *name, int to, const char *last)
{
    int in = path_open_beneath(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, NULL);
    return in < 0
               ? in
               : copy_open(in, openat(to, last,
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
}

static int carry_into(int from, int to, const char *name)
{
    struct stat st;
    const char *last;
    char target[PATH_MAX];
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return error();
    }
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
        return UV_EINVAL;
    }
    int parent = open_parent(to, name, &last), rc = 0;
    if (parent < 0) {
        return parent;
    }
    if (S_ISREG(st.st_mode)) {
        rc = carry_file(from, name, parent, last);
    } else {
        ssize_t n = readlinkat(from, name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        rc = n >= 0 && symlinkat(target, parent, last) == 0 ? 0 : error();
    }
    close(parent);
    return rc;
}

int files__carry(const char *from_dir, const char *to_dir, const char *name, struct err *e)
{
    int from = open(from_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int to = open(to_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = from < 0 || to < 0 ? error() : carry_into(from, to, name);
    if (from >= 0) {
        close(from);
    }
    if (to >= 0) {
        close(to);
    }
    return rc == 0 ? 0 : err_set(e, rc, "cannot copy '%s': %s", name, err_text(rc));
}

int files__link(const char *dir, const char *name, const char *target, struct err *e)
{
    const char *last = name; // gcc cannot see that error() is negative
    int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int parent = at < 0 ? error() : open_parent(at, name, &last);
    int rc = parent < 0 ? parent : symlinkat(target, parent, last) == 0 ? 0 : error();
    if (parent >= 0) {
        close(parent);
    }
    if (at >= 0) {
        close(at);
    }
    return rc == 0 ? 0 : err_set(e, rc, "cannot link '%s': %s", name, err_text(rc));
}

// ---- looking ---------------------------------------------------------------------------------

struct files_visit {
    dev_t dev;
    size_t left; // entries that may still be seen
    bool partial;
    void (*see)(struct files_visit *v, int dir, const char *name, const struct stat *st);
    struct git_measure *measure;
};

/// Takes over `dir`. Deeper than DEPTH_MAX it does not go.
static void visit(struct files_visit *v, DIR *dir, int depth)
{
    const char *name;
    struct stat st;
    while ((name = next_name(dir)) != NULL && v->left != 0) {
        v->left--;
        if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        v->see(v, dirfd(dir), name, &st);
        if (S_ISDIR(st.st_mode) && st.st_dev == v->dev) {
            int fd = depth == DEPTH_MAX ? -1
                                        : openat(dirfd(dir), name,
                                                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            DIR *sub = fd >= 0 ? fdopendir(fd) : NULL;
            v->partial = v->partial || sub == NULL;
            if (sub != NULL) {
                visit(v, sub, depth + 1);
            } else if (fd >= 0) {
                close(fd);
            }
        }
    }
    v->partial = v->partial || v->left == 0;
    closedir(dir);
}

static void visit_tree(struct files_visit *v, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 && fstat(fd, &st) == 0 ? fdopendir(fd) : NULL;
    assert(v->see != NULL);
    v->left = ENTRIES_MAX;
    if (dir != NULL) {
        v->dev = st.st_dev;
        visit(v, dir, 0);
    } else if (fd >= 0) {
        close(fd);
    }
}

static void measure_one(struct files_visit *v, int dir, const char *name, const struct stat *st)
{
    struct git_measure *m = v->measure;
    (void)dir;
    (void)name;
    m->files += !S_ISDIR(st->st_mode);
    m->bytes += (uint64_t)st->st_blocks * 512;
    m->changed_ms = MAX(m->changed_ms, st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000);
}

void files__measure(const char *dir, struct git_measure *m)
{
    struct files_visit v = {.see = measure_one, .measure = m};
    visit_tree(&v, dir);
    m->partial = v.partial;
}

static void disarm_one(struct files_visit *v, int dir, const char *name, const struct stat *st)
{
    (void)v;
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode) &&
        strncmp(name, ".git", 4) == 0) {
        unlinkat(dir, name, 0); // git waits for it otherwise, until its time is over
    }
}

void files__disarm(const char *dir)
{
    struct files_visit v = {.see = disarm_one};
    visit_tree(&v, dir);
}
