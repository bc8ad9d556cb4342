// Paths as text, and whole files: read, make directories, replace in one step.
//
// Replacing a file so that a crash leaves the old or the new bytes and nothing between:
//
//     open directory -> create .afloat-RANDOM.tmp -> fchmod, write, fsync -> rename -> fsync directory
//                              `------ on failure: unlink ------'
//
// Opening beneath a directory is in path_beneath.c.

#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"

enum { READ_CHUNK = 64 * 1024 };

// ---- text ----------------------------------------------------------------------------------

char *path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    if (n == 0 || name[0] == '/') {
        return xstrdup(name);
    }
    return xasprintf("%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

const char *path_below(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    if (strncmp(path, dir, n) != 0) {
        return NULL;
    }
    if (n != 0 && dir[n - 1] == '/') { // the root
        return path + n;
    }
    return path[n] == '\0' ? path + n : path[n] == '/' ? path + n + 1 : NULL;
}

bool path_has_part(const char *path, const char *name)
{
    struct str rest = str_of(path);
    while (rest.n != 0) {
        if (str_eqz(str_cut(&rest, '/'), name)) {
            return true;
        }
    }
    return false;
}

static struct str without_end_slashes(struct str path)
{
    while (path.n > 1 && path.p[path.n - 1] == '/') {
        path.n--;
    }
    return path;
}

// Length up to and with the last slash, 0 without one.
static size_t last_slash(struct str path)
{
    size_t n = path.n;
    while (n > 0 && path.p[n - 1] != '/') {
        n--;
    }
    return n;
}

struct str path_base(struct str path)
{
    path = without_end_slashes(path);
    return str_eqz(path, "/") ? path : str_from(path, last_slash(path));
}

struct str path_dir(struct str path)
{
    path = without_end_slashes(path);
    path.n = last_slash(path);
    return path.n != 0 ? without_end_slashes(path) : STR(".");
}

bool path_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool path_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

char *path_expand_home(const char *path)
{
    char room[4096];
    if (path[0] != '~' || (path[1] != '\0' && path[1] != '/')) {
        return xstrdup(path);
    }
    const char *home = getenv("HOME");
    if (home == NULL || home[0] != '/') {
        struct passwd entry, *found = NULL;
        int rc = getpwuid_r(getuid(), &entry, room, sizeof room, &found);
        home = rc == 0 && found != NULL ? entry.pw_dir : NULL;
    }
    return home != NULL ? xasprintf("%s%s", home, path + 1) : xstrdup(path);
}

char *path_fold_home(const char *path, const char *home)
{
    size_t n = home != NULL ? strlen(home) : 0;
    bool below = n > 1 && strncmp(path, home, n) == 0 && (path[n] == '/' || path[n] == '\0');
    return below ? xasprintf("~%s", path + n) : xstrdup(path);
}

char *path_find_program(struct str dirs, const char *name)
{
    while (dirs.n != 0) {
        struct str dir = str_cut(&dirs, ':');
        char *path = xasprintf(STR_FMT "/%s", STR_ARG(dir), name);
        struct stat st;
        if (str_starts(dir, "/") && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            access(path, X_OK) == 0) {
            return path;
        }
        free(path);
    }
    return NULL;
}

char *path_own_program(struct err *e)
{
    static const char gone[] = " (deleted)"; // the kernel's mark
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n < 0) {
        err_sys(e, "cannot find our own program");
        return NULL;
    }
    struct str found = {path, (size_t)n};
    found.n -= str_ends(found, gone) ? sizeof gone - 1 : 0;
    return str_dup(found);
}

// Cut the last part off `out`, unless there is none or it is a `..` that had to stay.
static bool drop_part(struct buf *out, size_t root)
{
    struct str made = str_from(buf_str(out), root);
    struct str last = str_from(made, last_slash(made));
    if (made.n == 0 || str_eqz(last, "..")) {
        return false;
    }
    buf_cut(out, root + (last.n < made.n ? made.n - last.n - 1 : 0));
    return true;
}

char *path_real(const char *path)
{
    char *real = realpath(path, NULL);
    for (struct str up = str_of(path); real == NULL && up.n > 1;) {
        up = path_dir(up);
        char *dir = str_dup(up), *real_dir = realpath(dir, NULL);
        if (real_dir != NULL) {
            char *joined = xasprintf("%s/%s", real_dir, path + up.n);
            real = path_clean(joined);
            free(joined);
        }
        free(dir);
        free(real_dir);
    }
    return real != NULL ? real : path_clean(path);
}

char *path_clean(const char *path)
{
    size_t root = path[0] == '/'; // length of what no `..` takes away
    struct buf out = {.max = strlen(path) + 1};
    buf_add(&out, path, root);
    for (struct str rest = str_of(path); rest.p != NULL;) {
        struct str part = str_cut(&rest, '/');
        bool up = str_eqz(part, "..");
        if (part.n == 0 || str_eqz(part, ".") || (up && drop_part(&out, root)) ||
            (up && root != 0)) {
            continue;
        }
        buf_addz(&out, out.n > root ? "/" : "");
        buf_adds(&out, part);
    }
    buf_addz(&out, out.n == 0 ? "." : "");
    return buf_take(&out, NULL);
}

// ---- disk ----------------------------------------------------------------------------------

// mkdir() asks the umask, chmod() does not. An existing directory keeps its mode.
static int make_dir(const char *path, mode_t mode)
{
    struct stat st;
    if (mkdir(path, mode) == 0) {
        return chmod(path, mode) == 0 ? 0 : -errno;
    }
    if (errno != EEXIST || stat(path, &st) != 0) {
        return -errno;
    }
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int path_mkdirs(const char *path, mode_t mode, struct err *e)
{
    char *copy = xstrdup(path);
    int rc = path[0] != '\0' ? 0 : -ENOENT;
    for (char *p = copy; rc == 0 && *p != '\0';) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        char end = *p;
        *p = '\0';
        rc = make_dir(copy, mode);
        *p = end;
        p += strspn(p, "/");
    }
    free(copy);
    return rc == 0 ? 0 : err_set(e, rc, "cannot create directory '%s': %s", path, err_text(rc));
}

int path_read_fd(int fd, struct buf *out, struct stat *st)
{
    size_t before = out->n;
    int rc = !buf_ok(out) ? ERR_TOO_LARGE : fstat(fd, st) == 0 ? 0 : -errno;
    if (rc == 0 && !S_ISREG(st->st_mode)) {
        rc = S_ISDIR(st->st_mode) ? -EISDIR : ERR_UNSUPPORTED;
    }
    // A small file takes a small buffer: a chunk for each of thousands would be mapped and unmapped each
    // time. The file may grow meanwhile or, in /proc, claim to be empty.
    size_t chunk =
        rc == 0 && st->st_size != 0 ? MIN((size_t)st->st_size + 1, (size_t)READ_CHUNK) : READ_CHUNK;
    for (ssize_t n = 1; rc == 0 && n != 0;) {
        char spare; // when `out` is full: is there one byte more?
        size_t room = MIN(out->max - out->n, chunk);
        char *to = room != 0 ? buf_reserve(out, room) : &spare;
        n = read(fd, to, room != 0 ? room : 1);
        if (n < 0) {
            rc = errno == EINTR ? 0 : -errno;
        } else if (room == 0) {
            rc = n != 0 ? ERR_TOO_LARGE : 0;
        } else {
            buf_grow(out, (size_t)n);
        }
    }
    if (rc < 0) {
        buf_cut(out, before);
    }
    return rc;
}

int path_read(const char *path, struct buf *out, struct err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); // a FIFO must not hang us
    if (fd < 0) {
        return err_sys(e, "cannot open '%s'", path);
    }
    int rc = path_read_fd(fd, out, &st);
    close(fd);
    return rc == 0 ? 0 : err_set(e, rc, "cannot read '%s': %s", path, err_text(rc));
}

int path_write_fd(int fd, struct str bytes)
{
    while (bytes.n != 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            poll(&p, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return -errno;
        }
        bytes = str_from(bytes, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

// A new file `name` with all of `bytes`, on the disk. On failure there is no such file.
static int write_new(int dir, const char *name, struct str bytes, mode_t mode)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    int rc = fchmod(fd, mode) == 0 ? 0 : -errno;
    if (rc == 0) {
        rc = path_write_fd(fd, bytes);
    }
    if (rc == 0 && fsync(fd) != 0) {
        rc = -errno;
    }
    close(fd);
    if (rc != 0) {
        unlinkat(dir, name, 0);
    }
    return rc;
}

/// Write `bytes` to a temporary file in `from`, then move it to `name` in `dir`, replacing a file of that name
/// only with `replace`.
static int write_in(int from, int dir, const char *name, struct str bytes, mode_t mode,
                    bool replace)
{
    char temp[32], random[17];
    random_hex(random, sizeof random);
    snprintf(temp, sizeof temp, ".afloat-%s.tmp", random);
    int rc = write_new(from, temp, bytes, mode);
    if (rc != 0) {
        return rc;
    }
    rc = replace ? renameat(from, temp, dir, name) : linkat(from, temp, dir, name, 0);
    rc = rc == 0 ? 0 : -errno;
    if (!replace || rc != 0) {
        unlinkat(from, temp, 0);
    }
    return rc == 0 && fsync(dir) != 0 ? -errno : rc;
}

/// Open a directory, `*rc` saying how it went; -1 when it could not be, or `*rc` was not 0 before.
static int open_dir(const char *path, int *rc)
{
    int fd = *rc == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    *rc = *rc == 0 && fd < 0 ? -errno : *rc;
    return fd;
}

/// `through`: the directory of the temporary file; NULL: that of `path`.
static int write_whole(const char *through, const char *path, struct str bytes, mode_t mode,
                       bool replace, struct err *e)
{
    struct str last = path_base(str_of(path));
    if (last.n == 0 || path[strlen(path) - 1] == '/') {
        return err_set(e, -EISDIR, "cannot write '%s': not the name of a file", path);
    }
    char *parent = str_dup(path_dir(str_of(path)));
    int rc = 0, dir = open_dir(parent, &rc), from = through != NULL ? open_dir(through, &rc) : dir;
    free(parent);
    if (rc == 0) { // the last part runs to the end of `path`
        rc = write_in(from, dir, last.p, bytes, mode, replace);
    }
    if (from >= 0 && from != dir) {
        close(from);
    }
    if (dir >= 0) {
        close(dir);
    }
    if (rc == -EEXIST) {
        return err_set(e, ERR_CONFLICT, "'%s' exists already", path);
    }
    return rc == 0 ? 0 : err_set(e, rc, "cannot write '%s': %s", path, err_text(rc));
}

int path_lock(const char *path, struct err *e)
{
    char *name = xasprintf("%s.lock", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = fd >= 0 ? fd : err_sys(e, "cannot open '%s'", name);
    while (rc >= 0 && flock(fd, LOCK_EX) < 0) {
        if (errno != EINTR) {
            rc = err_sys(e, "cannot lock '%s'", name);
            close(fd);
        }
    }
    free(name);
    return rc;
}

int path_write_atomic(const char *path, struct str bytes, mode_t mode, struct err *e)
{
    return write_whole(NULL, path, bytes, mode, true, e);
}

int path_write_through(const char *through, const char *path, struct str bytes, mode_t mode,
                       struct err *e)
{
    return write_whole(through, path, bytes, mode, true, e);
}

int path_write_new(const char *path, struct str bytes, mode_t mode, struct err *e)
{
    return write_whole(NULL, path, bytes, mode, false, e);
}
