// Files and directories, without git.
//
// A worktree in which a model has worked may hold anything, links that lead out of it included. So nothing is ever
// opened through a link.

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

// ---- copying ---------------------------------------------------------------------------------

static int copy_bytes(int from, int to)
{
    char *chunk = xmalloc(COPY_MAX);
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = read(from, chunk, COPY_MAX)) != 0) {
        rc = n < 0 ? error() : path_write_fd(to, (struct str){chunk, (size_t)n});
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

/// The directory that contains `name`, made where it is missing, and the last part of `name`.
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
        int in = path_open_beneath(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, NULL);
        int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        rc = in < 0 ? in : copy_open(in, openat(parent, last, flags, 0600));
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
    struct stat st;
    for (struct dirent *entry; v->left != 0 && (entry = readdir(dir)) != NULL;) { // NOLINT: ours
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
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
