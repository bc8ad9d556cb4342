// Files for Lua code in the hub: the backend of the library `fs` (lua/lib_fs.c).
//
// Any call can hang on a dead mount or a slow disk, so each is a job of a lane, keyed by its mount: a dead mount leaves
// threads for the others. Code that is being loaded may not wait: it reads files at once, up to 1 MiB and not from a
// network mount, and they become inputs of its unit.
//
// Paths are absolute or begin with `~/`: the hub has no meaningful current directory.

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <unistd.h>

#include "base/path.h"
#include "bind/bind_int.h"

enum { LOAD_MAX = 1 << 20 };

struct fs_op {
    struct bind_op op;
    struct lib_fs_job *job;
};

// ---- the work, on threads ---------------------------------------------------------------------

static int fs_open(void *bind, const char *path, int flags)
{
    (void)bind;
    int fd = open(path, flags | O_CLOEXEC, 0644);
    return fd >= 0 ? fd : -errno;
}

static int fs_mkdir(void *bind, const char *path)
{
    (void)bind;
    return path_mkdirs(path, 0755, NULL);
}

static int fs_write(void *bind, const char *path, struct str bytes, mode_t mode)
{
    struct stat st;
    char *real = realpath(path, NULL); // a link stays: the file that it leads to is replaced
    const char *to = real != NULL ? real : path;
    if (stat(to, &st) == 0) {
        mode = st.st_mode & 07777;
    }
    char *dir = str_dup(path_dir(str_of(to)));
    int rc = fs_mkdir(bind, dir);
    if (rc == 0) {
        rc = path_write_atomic(to, bytes, mode != 0 ? mode : 0644, NULL);
    }
    free(dir);
    free(real);
    return rc;
}

static int fs_append(void *bind, const char *path, struct str bytes)
{
    // not blocking: a FIFO may have no reader
    int fd = fs_open(bind, path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return fd;
    }
    int rc = path_write_fd(fd, bytes);
    close(fd);
    return rc;
}

static int fs_remove(void *bind, const char *path)
{
    (void)bind;
    return remove(path) == 0 ? 0 : -errno;
}

static int fs_rename(void *bind, const char *from, const char *to)
{
    (void)bind;
    return rename(from, to) == 0 ? 0 : -errno;
}

// ---- requests ---------------------------------------------------------------------------------

static char *fs_resolve(const char *path)
{
    bool named = path[0] == '/' || strcmp(path, "~") == 0 || strncmp(path, "~/", 2) == 0;
    return named ? path_expand_home(path) : NULL;
}

static void fs_op_free(struct bind_op *op)
{
    struct fs_op *f = container_of(op, struct fs_op, op);
    lib_fs_free(f->job);
    free(f);
}

static void on_work(void *arg)
{
    lib_fs_work(((struct fs_op *)arg)->job);
}

static void on_done(void *arg)
{
    struct fs_op *f = arg;
    lua_State *L = bind__op_answer_begin(&f->op);
    if (L != NULL) {
        bind__op_answer(&f->op, lib_fs_push(L, f->job));
    }
    fs_op_free(&f->op);
}

static int fs_op_start(struct bind_op *op, struct err *e)
{
    (void)e;
    struct fs_op *f = container_of(op, struct fs_op, op);
    work_submit(op->o->bind->files, work_mount_key(f->job->path), on_work, on_done, f);
    return 0;
}

static const struct bind_op_kind fs_kind = {
    .line = LINE_FS, .start = fs_op_start, .free = fs_op_free}; // a thread cannot be stopped

/// Is `path` on a mount that another machine serves? Asks the mount table, not the path.
static bool is_remote(const char *path)
{
    static const char *const kinds[] = {"nfs", "cifs", "smb", "fuse", "9p", "ceph", "afs", "ncp"};
    struct mntent entry;
    char space[PATH_MAX * 2];
    bool remote = false;
    size_t best = 0;
    FILE *f = setmntent("/proc/self/mounts", "re");
    while (f != NULL && getmntent_r(f, &entry, space, sizeof space) != NULL) {
        size_t n = strlen(entry.mnt_dir);
        if (path_below(entry.mnt_dir, path) == NULL || n < best) {
            continue;
        }
        best = n;
        remote = false;
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
            remote |= str_starts(str_of(entry.mnt_type), kinds[i]);
        }
    }
    if (f != NULL) {
        endmntent(f);
    }
    return remote;
}

static int fs_run(lua_State *L, struct lib_fs_job *j, int callback)
{
    if (j->reads && lib_is_loading(L) && lua_isnil(L, callback)) {
        if (is_remote(j->path)) {
            return args_fail(L, "%s: cannot wait here: '%s' is on a network mount", j->name,
                             j->path);
        }
        bind__note_read(L, j->path);
        return lib_fs_now(L, j, LOAD_MAX);
    }
    bind__op_check(L, callback, j->name);
    if (!j->reads) {
        bind__note_write(L, NULL);
    }
    struct fs_op *f = xcalloc(1, sizeof *f);
    lib_fs_keep(j);
    f->job = j;
    return bind__op_run(L, &f->op, &fs_kind, j->name, sizeof *f + sizeof *j + j->bytes.n, callback);
}

const struct lib_fs bind__fs = {
    .resolve = fs_resolve,
    .run = fs_run,
    .open = fs_open,
    .write = fs_write,
    .append = fs_append,
    .mkdir = fs_mkdir,
    .remove = fs_remove,
    .rename = fs_rename,
};
