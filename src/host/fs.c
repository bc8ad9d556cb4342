// Files of the improvements' directory, and no others: the backend of the library `fs` (lua/lib_fs.c).
//
// Every path is relative to that directory and resolved by path_open_beneath(): no `..`, absolute
// path or symbolic link leads out. What changes a name (write, mkdir, remove, rename) opens the
// directory that holds it in the same way and then acts on the last part alone, which is never
// followed:
//
//     "notes/2026/a.txt"  ──beneath──>  descriptor of notes/2026  +  "a.txt"
//
// Landlock says the same once more for the whole process. What it cannot say is said here: the
// improvements themselves (*.lua at the top) can be read but not changed. Code that an agent wrote
// for one session must not be able to write code for all of them.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "host/host_int.h"

static int far_open(void *far, const char *path, int flags)
{
    return path_open_beneath(((struct far *)far)->root, path, flags, 0600, NULL);
}

// ---- a name in its directory ---------------------------------------------------------------

struct place {
    int dir; // descriptor of the directory, -1 when there is none
    char name[NAME_MAX + 1];
};

/// Split `path` for a change. Returns 0 or a negative code, with p->dir -1.
static int open_place(struct far *f, const char *path, struct place *p)
{
    struct str dir = path_dir(str_of(path)), name = path_base(str_of(path));
    p->dir = -1;
    if (path[0] == '/') {
        return -EXDEV;
    }
    if (name.n == 0 || str_eqz(name, ".") || str_eqz(name, "..")) {
        return -EINVAL;
    }
    if (name.n > NAME_MAX || dir.n >= PATH_MAX) {
        return -ENAMETOOLONG;
    }
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, STR_FMT, STR_ARG(dir));
    snprintf(p->name, sizeof p->name, STR_FMT, STR_ARG(name));
    int fd = far_open(f, parent, O_RDONLY | O_DIRECTORY);
    struct stat top, here;
    if (fd >= 0 && str_ends(name, ".lua") && fstat(f->root, &top) == 0 && fstat(fd, &here) == 0 &&
        top.st_dev == here.st_dev && top.st_ino == here.st_ino) {
        close(fd);
        return -EACCES; // an improvement
    }
    p->dir = fd >= 0 ? fd : -1;
    return fd >= 0 ? 0 : fd;
}

static void close_place(struct place *p)
{
    if (p->dir >= 0) {
        close(p->dir);
    }
}

// ---- changing ------------------------------------------------------------------------------

/// Count `bytes` and, if its name is new, the name against what this process may take of the disk in its life.
static int charge_file(struct far *f, const struct place *p, size_t bytes)
{
    struct stat st;
    size_t name = fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : FAR__NAME;
    assert(p->dir >= 0 && f->disk <= FAR__DISK);
    if (bytes > FAR__DISK || bytes + name > FAR__DISK - f->disk) {
        return -EDQUOT;
    }
    f->disk += bytes + name;
    return 0;
}

static int far_write(void *far, const char *path, struct str bytes, mode_t mode)
{
    (void)mode; // its files are its own
    struct far *f = far;
    struct place p;
    char temporary[64];
    int fd = -1, rc = open_place(f, path, &p);
    if (rc == 0) {
        rc = charge_file(f, &p, bytes.n);
    }
    snprintf(temporary, sizeof temporary, ".afloat-%d.tmp", (int)getpid());
    if (rc == 0) {
        unlinkat(p.dir, temporary, 0);
        fd = path_open_beneath(p.dir, temporary, O_WRONLY | O_CREAT | O_EXCL, 0600, NULL);
        rc = fd >= 0 ? path_write_fd(fd, bytes) : fd;
    }
    if (rc == 0 && renameat(p.dir, temporary, p.dir, p.name) != 0) {
        rc = -errno;
    }
    if (fd >= 0) {
        close(fd);
        unlinkat(p.dir, temporary, 0); // gone unless something failed
    }
    close_place(&p);
    return rc;
}

static int far_append(void *far, const char *path, struct str bytes)
{
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    struct place p;
    int rc = open_place(far, path, &p);
    if (rc == 0) {
        rc = charge_file(far, &p, bytes.n);
    }
    if (rc == 0) {
        int fd = path_open_beneath(p.dir, p.name, flags, 0600, NULL);
        rc = fd >= 0 ? path_write_fd(fd, bytes) : fd;
        if (fd >= 0) {
            close(fd);
        }
    }
    close_place(&p);
    return rc;
}

static bool is_dir(const struct place *p)
{
    struct stat st;
    return fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int far_mkdir(void *far, const char *path)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        return n == 0 ? -ENOENT : -ENAMETOOLONG;
    }
    for (size_t at = 1; at <= n; at++) {
        struct place p;
        if (at < n && path[at] != '/') {
            continue;
        }
        snprintf(part, sizeof part, "%.*s", (int)at, path);
        int rc = open_place(far, part, &p);
        if (rc == 0) {
            rc = charge_file(far, &p, 0);
        }
        if (rc == 0 && mkdirat(p.dir, p.name, 0700) != 0) {
            rc = errno != EEXIST ? -errno : is_dir(&p) ? 0 : -ENOTDIR;
        }
        close_place(&p);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int far_remove(void *far, const char *path)
{
    struct place p;
    int rc = open_place(far, path, &p);
    if (rc == 0 && unlinkat(p.dir, p.name, 0) != 0) {
        rc = errno == EISDIR && unlinkat(p.dir, p.name, AT_REMOVEDIR) == 0 ? 0 : -errno;
    }
    close_place(&p);
    return rc;
}

static int far_rename(void *far, const char *from, const char *to)
{
    struct place old, new = {.dir = -1};
    int rc = open_place(far, from, &old);
    if (rc == 0) {
        rc = open_place(far, to, &new);
    }
    if (rc == 0 && renameat(old.dir, old.name, new.dir, new.name) != 0) {
        rc = -errno;
    }
    close_place(&old);
    close_place(&new);
    return rc;
}

/// Work is done at once; a callback gets the answer in a later turn, as in the hub.
static int far_run(lua_State *L, struct lib_fs_job *j, int callback)
{
    if (lua_isnil(L, callback)) {
        return lib_fs_now(L, j, SIZE_MAX);
    }
    lua_pushvalue(L, callback);
    return far__call_later(L, j->name, lib_fs_now(L, j, SIZE_MAX));
}

const struct lib_fs far__fs = {
    .top = ".",
    .outside = "it leads out of the improvements",
    .resolve = xstrdup,
    .run = far_run,
    .open = far_open,
    .write = far_write,
    .append = far_append,
    .mkdir = far_mkdir,
    .remove = far_remove,
    .rename = far_rename,
};
