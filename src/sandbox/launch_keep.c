// Names that must not appear in a writable tree: a `.git` or `.afloat` that is not there yet.
//
// What exists is protected by a read-only mount on it. A name that does not exist has nothing to mount on, and
// no wall of the kernel can say "any name but this one". So the supervisor makes an empty directory (or file)
// of that name before the command starts, the command sees it under a read-only mount, which it can neither
// remove nor rename, and when the command and all its children are gone the supervisor removes it. While the
// command runs it is visible in the user's tree; git and Afloat ignore an empty one.
//
// Several commands may run in one tree. Each holds a shared lock on the placeholder and removes it only if it
// can lock it alone, so the last one does. Removing is rmdir(), which spares what a user has begun to fill
// meanwhile, and only what carries our mark, the sticky bit: so one that was left behind (a power cut) goes
// with the next command, and a directory that the user made stays.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/launch_int.h"

enum { TRIES = 16, MARK = S_ISVTX };

static struct {
    int parent, lock;
    const char *name; // borrowed from the rule
    bool is_dir;
} kept[LAUNCH_RULES_MAX];
static size_t n_kept;

/// It is marked from the first moment on: another box that is prepared meanwhile must not take it for the user's own.
static bool make(int parent, const char *name, bool dir)
{
    mode_t mode = (dir ? 0755 : 0644) | MARK;
    int fd = dir ? -1 : openat(parent, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    bool made = dir ? mkdirat(parent, name, mode) == 0 : fd >= 0;
    if (fd >= 0) {
        close(fd);
    }
    return made && fchmodat(parent, name, mode, 0) == 0; // whatever the umask is
}

/// Move a descriptor away from the numbers that belong to the program's streams.
static int move_up(int fd)
{
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, LAUNCH_CHANNEL_FD + 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return high;
}

/// Is `lock` still what `name` leads to? Another supervisor may have removed it.
static bool is_same(int parent, const char *name, int lock)
{
    struct stat a, b;
    return fstat(lock, &a) == 0 && fstatat(parent, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Lock what is there; -1 when that is something else by now, which needs no keeping.
static int hold(int parent, const char *name, bool dir)
{
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (dir ? O_DIRECTORY : 0);
    int fd = move_up(openat(parent, name, flags));
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0) {
        close(fd); // it is being removed this very moment
        return -1;
    }
    return fd;
}

static void keep(int parent, const char *name, bool dir)
{
    assert(n_kept < LAUNCH_RULES_MAX);
    for (int i = 0; i < TRIES; i++) {
        if (!make(parent, name, dir) && errno != EEXIST) {
            break;
        }
        int lock = hold(parent, name, dir);
        if (lock >= 0 && is_same(parent, name, lock)) {
            kept[n_kept].parent = parent;
            kept[n_kept].lock = lock;
            kept[n_kept].name = name;
            kept[n_kept++].is_dir = dir;
            return;
        }
        if (lock >= 0) {
            close(lock);
        }
        usleep(1000);
    }
    launch__fail(LAUNCH_NO_MOUNT);
}

void keep__make(const struct launch_box *b)
{
    char dir[PATH_MAX];
    for (size_t i = 0; i < b->n; i++) {
        char kind = launch_rule_kind(b->rules[i]);
        const char *path = launch_rule_path(b->rules[i]);
        const char *slash = strrchr(path, '/');
        if ((kind != 'k' && kind != 'f') || slash == NULL) {
            continue;
        }
        size_t n = (size_t)(slash - path);
        if (n == 0 || n >= sizeof dir) {
            errno = EINVAL;
            launch__fail(LAUNCH_NO_MOUNT);
        }
        memcpy(dir, path, n);
        dir[n] = '\0';
        int parent = move_up(launch__open(dir));
        if (parent < 0) {
            launch__fail(LAUNCH_NO_MOUNT);
        }
        keep(parent, slash + 1, kind == 'k');
    }
}

void keep__forget(void)
{
    for (size_t i = 0; i < n_kept; i++) {
        close(kept[i].parent);
        close(kept[i].lock);
    }
    n_kept = 0;
}

void keep__drop(void)
{
    struct stat st;
    for (size_t i = 0; i < n_kept; i++) {
        bool ours = fstat(kept[i].lock, &st) == 0 && (st.st_mode & MARK) != 0 &&
                    (kept[i].is_dir || st.st_size == 0);
        if (ours && flock(kept[i].lock, LOCK_EX | LOCK_NB) == 0 &&
            is_same(kept[i].parent, kept[i].name, kept[i].lock)) {
            unlinkat(kept[i].parent, kept[i].name, kept[i].is_dir ? AT_REMOVEDIR : 0);
        }
    }
}
