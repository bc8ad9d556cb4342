// Open a file below a directory, wherever the path tries to lead.
//
// The kernel does it in one call, openat2(RESOLVE_BENEATH). Where it has none (before 5.6, or under
// a filter that forbids it) we walk the path ourselves and give the same verdicts:
//
//     rest   "a/link/../c"            dirs  [root]
//            "link/../c"                    [root, a]
//            "x/y/../c"   link -> x/y       [root, a]       its text is put before the rest
//            "../c"                         [root, a, x, y]
//            "c"                            [root, a, x]    `..` pops; popping the root is refused
//
// Every directory is opened relative to the one before it, without following links, and `..` goes
// back to a descriptor we hold: a directory moved away meanwhile cannot lead us out.
//
// A link of /proc that names an open file instead of a path (a "magic" link) is never followed.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"

enum { MOST_LINKS = 40, MOST_RETRIES = 16 };
enum { WALK_ON = INT_MIN }; // neither a descriptor nor an error

struct beneath_walk {
    vec(int) dirs;       // from the root to where we are; the first is the caller's
    char rest[PATH_MAX]; // the parts not walked yet
    unsigned links;      // followed so far
};

static int top(struct beneath_walk *w)
{
    return *vec_last(&w->dirs);
}

static void leave_dir(struct beneath_walk *w)
{
    close(vec_pop(&w->dirs));
}

// Put what the link says before the rest of the path.
static int follow(struct beneath_walk *w, const char *target)
{
    char joined[PATH_MAX];
    struct statfs fs;
    bool in_proc = fstatfs(top(w), &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
    bool magic = in_proc && (target[0] == '/' || strchr(target, ':') != NULL);
    if (++w->links > MOST_LINKS || magic) {
        return -ELOOP;
    }
    if (target[0] == '/') {
        return -EXDEV;
    }
    int n = snprintf(joined, sizeof joined, "%s%s", target, w->rest);
    if (n >= (int)sizeof joined) {
        return -ENAMETOOLONG;
    }
    memcpy(w->rest, joined, (size_t)n + 1);
    return WALK_ON;
}

// Take the first part off the rest, which then is empty or begins with a slash.
static void take_part(struct beneath_walk *w, char part[PATH_MAX])
{
    size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");
    memcpy(part, w->rest + skip, n);
    part[n] = '\0';
    memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
}

// Open the last part, which may be made by it.
static int open_last(struct beneath_walk *w, const char *part, int flags, mode_t mode)
{
    if (w->rest[0] != '\0') { // "name/": a directory, and never one that open() makes
        if ((flags & O_CREAT) != 0) {
            return -EISDIR;
        }
        flags |= O_DIRECTORY;
    }
    int fd = openat(top(w), part, flags | O_NOFOLLOW, mode);
    return fd >= 0 ? fd : -errno;
}

// Walk one part: a descriptor or an error when that was the last, else WALK_ON.
static int step(struct beneath_walk *w, int flags, mode_t mode)
{
    char part[PATH_MAX], target[PATH_MAX];
    take_part(w, part);
    assert(w->dirs.n != 0);
    bool last = w->rest[strspn(w->rest, "/")] == '\0', up = strcmp(part, "..") == 0;
    if (up && w->dirs.n == 1) {
        return -EXDEV;
    }
    if (up) {
        leave_dir(w);
    }
    if (up || strcmp(part, ".") == 0) {
        return last ? open_last(w, ".", flags, mode) : WALK_ON;
    }
    ssize_t n = -1;
    // A link is followed except at the very end, where open() has two ways to say no.
    const int makes_new = O_CREAT | O_EXCL;
    if ((w->rest[0] != '\0' || ((flags & O_NOFOLLOW) == 0 && (flags & makes_new) != makes_new))) {
        n = readlinkat(top(w), part, target, sizeof target - 1);
    }
    if (n < 0 && last) {
        return open_last(w, part, flags, mode);
    }
    if (n < 0) {
        int fd = openat(top(w), part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            return -errno;
        }
        vec_push(&w->dirs, fd);
        return WALK_ON;
    }
    target[n] = '\0';
    return follow(w, target);
}

static int walk_beneath(int dirfd, const char *rel, int flags, mode_t mode)
{
    struct beneath_walk w = {0};
    size_t n = strlen(rel);
    if (n == 0 || rel[0] == '/' || n >= sizeof w.rest) {
        return n == 0 ? -ENOENT : rel[0] == '/' ? -EXDEV : -ENAMETOOLONG;
    }
    memcpy(w.rest, rel, n + 1);
    vec_push(&w.dirs, dirfd);
    int rc;
    do {
        rc = step(&w, flags | O_CLOEXEC, mode);
    } while (rc == WALK_ON);
    while (w.dirs.n > 1) {
        leave_dir(&w);
    }
    vec_fini(&w.dirs);
    return rc;
}

// -EAGAIN means that something was renamed while the kernel looked: it could not tell.
static int kernel_beneath(int dirfd, const char *rel, int flags, mode_t mode)
{
    bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC),
        .mode = makes ? mode & 07777 : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    for (int try = 0; try < MOST_RETRIES; try++) {
        long fd = syscall(SYS_openat2, dirfd, rel, &how, sizeof how);
        if (fd >= 0 || errno != EAGAIN) {
            return fd >= 0 ? (int)fd : -errno;
        }
    }
    return -EAGAIN;
}

static int opened(int fd, const char *rel, struct err *e)
{
    return fd >= 0 ? fd : err_set(e, fd, "cannot open '%s': %s", rel, err_text(fd));
}

int path_open_beneath(int dirfd, const char *rel, int flags, mode_t mode, struct err *e)
{
    int fd = kernel_beneath(dirfd, rel, flags, mode);
    if (fd == -ENOSYS || fd == -EPERM || fd == -EAGAIN) { // EPERM is how some filters say ENOSYS
        fd = walk_beneath(dirfd, rel, flags, mode);
    }
    return opened(fd, rel, e);
}

int path_open_walk(int dirfd, const char *rel, int flags, mode_t mode, struct err *e)
{
    return opened(walk_beneath(dirfd, rel, flags, mode), rel, e);
}
