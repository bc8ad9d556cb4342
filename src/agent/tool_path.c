// Files of a call, checked against its box.
//
// The hub itself could open anything the user can, so a path is never judged by its text. It is
// opened first, without its content (O_PATH); then the kernel is asked for its real path, and the box
// decides about that. From there on only the descriptor is used: a link or directory that is swapped
// meanwhile changes what the path means, not what was opened. Links in /proc lead to anything the hub
// has open, so they are not followed, and file tools do not read /proc and /sys at all: commands can,
// with a /proc of their own.
//
// A `..` is left to the kernel, which follows the link before it first. The permission rules and the rewind
// have judged and kept that file; `x/../a` is not `a` where `x` is a link.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/tool_int.h"
#include "base/linediff.h"
#include "base/path.h"
#include "base/utf8.h"

/// Open without content; -1 with errno.
static int open_path(const char *path)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

/// Is `path`, which ends in the kernel's mark of a deleted file, the name of this one all the same?
static bool is_named_so(int fd, const char *path)
{
    struct stat open, named;
    return fstat(fd, &open) == 0 && lstat(path, &named) == 0 && open.st_dev == named.st_dev &&
           open.st_ino == named.st_ino;
}

/// The real path of an open file, in the arena; NULL: it has none, or was deleted.
static char *real_path(struct tool_job *c, int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    struct str real = {path, n > 0 ? (size_t)n : 0};
    if (real.n == 0 || real.n == sizeof path || path[0] != '/') {
        return NULL;
    }
    char *found = arena_strdup(&c->arena, real);
    return !str_ends(real, " (deleted)") || is_named_so(fd, found) ? found : NULL;
}

static bool is_kernel_made(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) != 0 || fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC;
}

/// Is it an output of this session? Those may be read although they are in the home of Afloat.
static bool is_output(const struct tool_job *c, const char *real)
{
    char *dir = c->env.outputs_dir != NULL ? realpath(c->env.outputs_dir, NULL) : NULL;
    const char *below = dir != NULL ? path_below(dir, real) : NULL;
    bool inside = below != NULL && below[0] != '\0';
    free(dir);
    return inside;
}

static int check_readable(struct tool_job *c, int fd, const char *path, bool dir, char **out,
                          struct err *e)
{
    struct stat st;
    const char *why = "it is not a file of a disk";
    char *real = real_path(c, fd);
    if (fstat(fd, &st) != 0) {
        return err_sys(e, "cannot look at '%s'", path);
    }
    if (dir && !S_ISDIR(st.st_mode)) {
        return err_set(e, -ENOTDIR, "'%s' is not a directory", path);
    }
    if (!dir && !S_ISREG(st.st_mode)) {
        return err_set(e, ERR_INVALID, "'%s' is %s, not a file", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "a special file");
    }
    if (real == NULL || is_kernel_made(fd) ||
        !(box_may_read(c->box, real, &why) || is_output(c, real))) {
        return err_set(e, ERR_DENIED, "'%s' may not be read: %s", path, why);
    }
    if (out != NULL) {
        *out = real;
    }
    return 0;
}

int tool__path(struct tool_job *c, struct str path, char **out, struct err *e)
{
    if (memchr(path.p, '\0', path.n) != NULL || path.n >= PATH_MAX) {
        return err_set(e, ERR_INVALID, "the path is too long or holds a NUL byte");
    }
    char *text = str_dup(path);
    char *expanded = path_expand_home(text);
    char *joined = path_join(box_dir(c->box), expanded);
    char *mapped = box_map(c->box, joined);
    *out = mapped != NULL ? arena_strdup(&c->arena, str_of(mapped)) : NULL;
    int rc = 0;
    if (mapped == NULL) {
        rc = err_set(e, ERR_DENIED,
                     "'%s' is in /tmp, and each sandboxed command gets its own empty /tmp", text);
    }
    free(mapped);
    free(joined);
    free(expanded);
    free(text);
    return rc;
}

int tool__open(struct tool_job *c, const char *path, bool dir, char **real, struct err *e)
{
    int fd = open_path(path);
    if (fd < 0) {
        return err_sys(e, "cannot open '%s'", path);
    }
    int rc = check_readable(c, fd, path, dir, real, e);
    if (rc == 0) { // open the same file again, for reading
        char link[64];
        int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (dir ? O_DIRECTORY : 0);
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        rc = open(link, flags);
        rc = rc >= 0 ? rc : err_sys(e, "cannot open '%s'", path);
    }
    close(fd);
    return rc;
}

static int read_text(int fd, const char *path, struct buf *out, struct err *e)
{
    ssize_t n;
    char *room;
    while ((room = buf_reserve(out, 64 << 10)) != NULL) {
        n = read(fd, room, 64 << 10);
        if (n < 0) {
            return err_sys(e, "cannot read '%s'", path);
        }
        if (n == 0) {
            break;
        }
        buf_grow(out, (size_t)n);
    }
    if (room == NULL) {
        return err_set(e, ERR_TOO_LARGE, "'%s' is larger than %d MiB: use the shell", path,
                       TOOL_FILE_MAX >> 20);
    }
    if (!utf8_valid(buf_str(out)) || (out->n != 0 && memchr(out->p, '\0', out->n) != NULL)) {
        return err_set(e, ERR_INVALID, "'%s' is a binary file (%zu bytes), not UTF-8 text", path,
                       out->n);
    }
    return 0;
}

int tool__read_file(struct tool_job *c, const char *path, struct buf *out, struct err *e)
{
    char *real;
    int fd = tool__open(c, path, false, &real, e), rc = fd;
    if (fd >= 0 && c->env.from_editor && !c->asked) {
        c->wanted = real;
        rc = err_set(e, UV_EAGAIN, "the editor has to be asked for '%s'", path);
    } else if (fd >= 0 && c->unsaved.p != NULL) {
        buf_adds(out, c->unsaved);
        rc = 0;
    } else if (fd >= 0) {
        rc = read_text(fd, path, out, e);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

// ---- writing ---------------------------------------------------------------------------------

/// Where a file is to be written: its directory, open, and its name in it.
struct place {
    int dir;        // of a new file the nearest that exists; -1: not found
    char *missing;  // the directories from there, to be made; "" for none
    char *name;     // in the arena, as `missing`
    struct stat st; // of the file, if it exists
    bool exists;
};

static char *join(struct tool_job *c, const char *dir, const char *name)
{
    return arena_printf(&c->arena, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);
}

static int check_writable(struct tool_job *c, const char *real, const char *path, struct err *e)
{
    const char *why = NULL;
    if (c->env.consented && box_is_guarded(c->box, real)) {
        return 0;
    }
    if (!box_may_write(c->box, real, &why)) {
        c->guarded = box_is_guarded(c->box, real);
        return err_set(e, ERR_DENIED, "'%s' may not be written: %s", path, why);
    }
    return 0;
}

/// Open the directory `name` in `dir`, or create it. A new one has the mode that the client's umask gives; the hub's own
/// umask is for its home.
static int make_dir(int dir, const char *name, mode_t mask)
{
    char self[64];
    bool made = mkdirat(dir, name, 0700) == 0;
    if (!made && errno != EEXIST) {
        return -errno;
    }
    int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && made) {
        // by its descriptor: the name may be a link meanwhile
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        chmod(self, 0777 & ~mask);
    }
    return fd >= 0 ? fd : -errno;
}

/// Create the directories of `rel` in `dir`, which is closed. Returns the last one, open.
static int make_dirs(int dir, const char *rel, mode_t mask, const char *path, struct err *e)
{
    char name[NAME_MAX + 1];
    struct str rest = str_of(rel);
    while (rest.n != 0 && dir >= 0) {
        struct str part = str_cut(&rest, '/');
        int next = -ENAMETOOLONG;
        if (part.n <= NAME_MAX) {
            snprintf(name, sizeof name, STR_FMT, STR_ARG(part));
            next = make_dir(dir, name, mask);
        }
        close(dir);
        dir = next;
    }
    return dir >= 0 ? dir
                    : err_set(e, dir, "cannot make the directory of '%s': %s", path, err_text(dir));
}

/// The place of a file that exists: its real directory, whatever links led there.
static int find_existing(struct tool_job *c, int fd, const char *path, struct place *p,
                         struct err *e)
{
    char *real = real_path(c, fd);
    if (fstat(fd, &p->st) != 0 || real == NULL || !S_ISREG(p->st.st_mode) || is_kernel_made(fd)) {
        return err_set(e, ERR_INVALID, "'%s' is not a file that can be written", path);
    }
    p->exists = true;
    p->name = arena_strdup(&c->arena, path_base(str_of(real)));
    p->dir = open_path(arena_strdup(&c->arena, path_dir(str_of(real))));
    char *dir = p->dir >= 0 ? real_path(c, p->dir) : NULL;
    if (dir == NULL) {
        return err_sys(e, "cannot open the directory of '%s'", path);
    }
    // by the open directory, not by `path`
    return check_writable(c, join(c, dir, p->name), path, e);
}

/// The end of a new file's path, `rest` without its needless parts, in the arena. Above a directory that does not exist
/// is nothing: the permission rules could have judged another file.
static int clean_rest(struct tool_job *c, const char *rest, const char *path, char **out,
                      struct err *e)
{
    if (path_has_part(rest, "..")) {
        return err_set(e, -ENOENT, "'%s' goes up from a directory that does not exist", path);
    }
    char *clean = path_clean(rest + strspn(rest, "/"));
    *out = arena_strdup(&c->arena, str_of(clean));
    free(clean);
    return 0;
}

/// The place of a new file: nothing is made yet.
static int find_new(struct tool_job *c, const char *path, struct place *p, struct err *e)
{
    struct stat st;
    struct str up = path_dir(str_of(path));
    if (lstat(path, &st) == 0) {
        return err_set(e, ERR_DENIED, "'%s' is a symbolic link that leads nowhere", path);
    }
    while ((p->dir = open_path(arena_strdup(&c->arena, up))) < 0 && errno == ENOENT && up.n > 1) {
        up = path_dir(up);
    }
    char *real = p->dir >= 0 ? real_path(c, p->dir) : NULL;
    if (real == NULL) {
        return err_sys(e, "cannot open the directory of '%s'", path);
    }
    char *rest = NULL;
    int rc = clean_rest(c, path + up.n, path, &rest, e);
    rc = rc == 0 ? check_writable(c, join(c, real, rest), path, e) : rc;
    if (rc == 0) {
        struct str name = path_base(str_of(rest));
        size_t n_dirs = (size_t)(name.p - rest);
        p->name = arena_strdup(&c->arena, name);
        p->missing = arena_strdup(&c->arena, (struct str){rest, n_dirs > 0 ? n_dirs - 1 : 0});
    }
    return rc;
}

/// Note what the write changes in c->diff. A file that is not text has no diff; of a very long diff the beginning is
/// kept.
static int note_diff(struct tool_job *c, const char *path, struct str text)
{
    struct buf before = {.max = TOOL_FILE_MAX};
    int rc = tool__read_file(c, path, &before, NULL);
    if (rc >= 0 || rc == -ENOENT) { // show the path relative to the working directory
        const char *below = path_below(c->policy.working_dir, path);
        const char *shown = below != NULL && below[0] != '\0' ? below : path;
        linediff_write(&c->diff, str_of(shown), buf_str(&before), text);
    }
    buf_fini(&before);
    return rc == UV_EAGAIN ? rc : 0;
}

/// Give a replaced file back to its user and group, as far as we may: only root can do both. It is written in any case.
static void keep_owner(const struct place *p)
{
    uid_t uid = geteuid() == 0 ? p->st.st_uid : (uid_t)-1;
    (void)!fchownat(p->dir, p->name, uid, p->st.st_gid, AT_SYMLINK_NOFOLLOW);
}

static int write_place(struct tool_job *c, struct place *p, const char *path, struct str text,
                       struct err *e)
{
    char file[64 + NAME_MAX];
    p->dir = p->exists ? p->dir : make_dirs(p->dir, p->missing, c->umask, path, e);
    if (p->dir < 0) {
        return p->dir;
    }
    char *dir = c->env.to_editor ? real_path(c, p->dir) : NULL;
    if (dir != NULL) { // the editor writes it, and updates its buffer
        c->wanted = join(c, dir, p->name);
        c->to_write = arena_str(&c->arena, text);
        return 0;
    }
    snprintf(file, sizeof file, "/proc/self/fd/%d/%s", p->dir, p->name);
    int rc =
        path_write_atomic(file, text, p->exists ? p->st.st_mode & 0777 : 0666 & ~c->umask, NULL);
    if (rc == 0 && p->exists) {
        keep_owner(p);
    }
    return rc == 0 ? 0 : err_set(e, rc, "cannot write '%s': %s", path, err_text(rc));
}

int tool__write(struct tool_job *c, const char *path, struct str text, struct err *e)
{
    struct place p = {.dir = -1};
    int rc = note_diff(c, path, text);
    if (rc < 0) {
        return rc;
    }
    int fd = open_path(path);
    if (fd < 0 && errno != ENOENT) {
        return err_sys(e, "cannot open '%s'", path);
    }
    rc = fd >= 0 ? find_existing(c, fd, path, &p, e) : find_new(c, path, &p, e);
    if (fd >= 0) {
        close(fd);
    }
    if (rc == 0 && !c->env.preview) {
        rc = write_place(c, &p, path, text, e);
    }
    if (p.dir >= 0) {
        close(p.dir);
    }
    return c->env.preview && c->guarded ? 0 : rc;
}
