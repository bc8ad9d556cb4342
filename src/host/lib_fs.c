// The library `fs`: files of the improvements' directory, and no others.
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

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "host/host_int.h"

static int fail(lua_State *L, const char *what, int rc)
{
    return far__nil(L, "cannot %s '%s': %s", what, lua_tostring(L, 1),
                    rc == -EXDEV ? "it leads out of the improvements" : err_text(rc));
}

static int ok(lua_State *L)
{
    lua_pushboolean(L, true);
    return 1;
}

/// The path at `arg`. A text with a NUL would be another path for the kernel.
static const char *check_path(lua_State *L, int arg)
{
    size_t n;
    const char *path = luaL_checklstring(L, arg, &n);
    luaL_argcheck(L, strlen(path) == n, arg, "a path holds no NUL");
    return path;
}

static int open_path(lua_State *L, const char *path, int flags)
{
    return path_open_beneath(far__of(L)->root, path, flags, 0600, NULL);
}

// ---- a name in its directory ---------------------------------------------------------------

struct place {
    int dir; // descriptor of the directory, -1 when there is none
    char name[NAME_MAX + 1];
};

static bool is_top(const struct far *f, int dir)
{
    struct stat a, b;
    return fstat(f->root, &a) == 0 && fstat(dir, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/// Split `path` for a change. Returns 0 or a negative code, with p->dir -1.
static int open_place(lua_State *L, const char *path, struct place *p)
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
    int fd = open_path(L, parent, O_RDONLY | O_DIRECTORY);
    if (fd >= 0 && str_ends(name, ".lua") && is_top(far__of(L), fd)) {
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

// ---- reading -------------------------------------------------------------------------------

/// The whole of a regular file into `out`. Never waits: a pipe is refused before it is read.
static int read_all(int fd, struct buf *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    }
    for (;;) {
        char *room = buf_reserve(out, 16 * 1024);
        ssize_t n = room != NULL ? read(fd, room, 16 * 1024) : 0;
        if (room == NULL) {
            return -EFBIG;
        }
        if (n <= 0) {
            return n == 0 ? 0 : -errno;
        }
        buf_grow(out, (size_t)n);
    }
}

static int read_path(lua_State *L, const char *path, struct buf *out)
{
    buf_init(out, FAR__READ_MAX);
    int fd = open_path(L, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return fd;
    }
    int rc = read_all(fd, out);
    close(fd);
    return rc;
}

/// Push the bytes of `b` as a string, and free them. What is raised here is a passed limit: that is
/// the end of this process, so nothing that lies about then is lost.
static void push_taken(lua_State *L, struct buf *b)
{
    lua_pushlstring(L, b->p != NULL ? b->p : "", b->n);
    buf_fini(b);
}

static int fs_read(lua_State *L)
{
    struct buf text;
    int rc = read_path(L, check_path(L, 1), &text);
    if (rc < 0) {
        buf_fini(&text);
        return fail(L, "read", rc);
    }
    push_taken(L, &text);
    return 1;
}

/// Look at what `path` leads to, without opening it.
static int stat_path(lua_State *L, const char *path, struct stat *st)
{
    int fd = open_path(L, path, O_PATH);
    if (fd < 0) {
        return fd;
    }
    int rc = fstat(fd, st) == 0 ? 0 : -errno;
    close(fd);
    return rc;
}

static int fs_exists(lua_State *L)
{
    struct stat st;
    lua_pushboolean(L, stat_path(L, check_path(L, 1), &st) == 0);
    return 1;
}

static int fs_is_dir(lua_State *L)
{
    struct stat st;
    lua_pushboolean(L, stat_path(L, check_path(L, 1), &st) == 0 && S_ISDIR(st.st_mode));
    return 1;
}

static int fs_stat(lua_State *L)
{
    struct stat st;
    int rc = stat_path(L, check_path(L, 1), &st);
    if (rc < 0) {
        return fail(L, "look at", rc);
    }
    lua_createtable(L, 0, 3);
    lua_pushstring(L, S_ISREG(st.st_mode) ? "file" : S_ISDIR(st.st_mode) ? "directory" : "other");
    lua_setfield(L, -2, "type");
    lua_pushinteger(L, st.st_size);
    lua_setfield(L, -2, "size");
    lua_pushnumber(L, (lua_Number)st.st_mtim.tv_sec + (lua_Number)st.st_mtim.tv_nsec / 1e9);
    lua_setfield(L, -2, "mtime");
    return 1;
}

typedef vec(char *) names;

static void names_fini(names *all)
{
    vec_foreach (name, all) {
        free(*name);
    }
    vec_fini(all);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_dir(int fd, names *all)
{
    struct dirent *entry;
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        close(fd);
        return -errno;
    }
    while (all->n < FAR__LIST_MAX && (entry = readdir(d)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            vec_push(all, xstrdup(entry->d_name));
        }
    }
    closedir(d);
    return 0;
}

static int fs_list(lua_State *L)
{
    names all = {0};
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_pushstring(L, ".");
    }
    int fd = open_path(L, check_path(L, 1), O_RDONLY | O_DIRECTORY);
    int rc = fd >= 0 ? list_dir(fd, &all) : fd;
    if (rc < 0) {
        names_fini(&all);
        return fail(L, "list", rc);
    }
    if (all.n != 0) {
        qsort(all.p, all.n, sizeof *all.p, by_name);
    }
    struct json *items = xcalloc(all.n + 1, sizeof *items);
    for (size_t i = 0; i < all.n; i++) {
        items[i] = (struct json){.type = JSON_STR, .s = str_of(all.p[i])};
    }
    value_push(L, &(struct json){.type = JSON_ARR, .n = (uint32_t)all.n, .items = items});
    free(items);
    names_fini(&all);
    return 1;
}

// ---- changing ------------------------------------------------------------------------------

/// What this process may take of the disk in its life.
static int charge(struct far *f, size_t bytes)
{
    if (bytes > FAR__DISK - f->disk) {
        return -EDQUOT;
    }
    f->disk += bytes;
    return 0;
}

/// A name that is not there yet takes some of the disk, whatever it holds.
static int charge_name(struct far *f, const struct place *p)
{
    struct stat st;
    return fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : charge(f, FAR__NAME);
}

/// Write all of it, within what this process may write in its life.
static int write_all(struct far *f, int fd, struct str text)
{
    int rc = charge(f, text.n);
    if (rc < 0) {
        return rc;
    }
    while (text.n != 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        text = str_from(text, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

/// A temporary file beside the real one, then one rename: nobody ever sees half of it.
static int replace_file(struct far *f, const struct place *p, struct str text)
{
    char temporary[64];
    int rc = charge_name(f, p);
    if (rc < 0) {
        return rc;
    }
    snprintf(temporary, sizeof temporary, ".afloat-%d.tmp", (int)getpid());
    unlinkat(p->dir, temporary, 0);
    int fd = path_open_beneath(p->dir, temporary, O_WRONLY | O_CREAT | O_EXCL, 0600, NULL);
    if (fd < 0) {
        return fd;
    }
    rc = write_all(f, fd, text);
    close(fd);
    if (rc == 0 && renameat(p->dir, temporary, p->dir, p->name) != 0) {
        rc = -errno;
    }
    if (rc < 0) {
        unlinkat(p->dir, temporary, 0);
    }
    return rc;
}

static int fs_write(lua_State *L)
{
    struct place p;
    struct str text;
    const char *path = check_path(L, 1);
    text.p = luaL_checklstring(L, 2, &text.n);
    int rc = open_place(L, path, &p);
    if (rc == 0) {
        rc = replace_file(far__of(L), &p, text);
    }
    close_place(&p);
    return rc < 0 ? fail(L, "write", rc) : ok(L);
}

static int append_to(struct far *f, const struct place *p, struct str text)
{
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int rc = charge_name(f, p);
    if (rc < 0) {
        return rc;
    }
    int fd = path_open_beneath(p->dir, p->name, flags, 0600, NULL);
    if (fd < 0) {
        return fd;
    }
    rc = write_all(f, fd, text);
    close(fd);
    return rc;
}

static int fs_append(lua_State *L)
{
    struct place p;
    struct str text;
    const char *path = check_path(L, 1);
    text.p = luaL_checklstring(L, 2, &text.n);
    int rc = open_place(L, path, &p);
    if (rc == 0) {
        rc = append_to(far__of(L), &p, text);
    }
    close_place(&p);
    return rc < 0 ? fail(L, "append to", rc) : ok(L);
}

/// With its parents, like a person means it. An existing directory is fine.
static int make_dirs(lua_State *L, const char *path)
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
        int rc = open_place(L, part, &p);
        if (rc == 0) {
            rc = charge_name(far__of(L), &p);
        }
        if (rc == 0 && mkdirat(p.dir, p.name, 0700) != 0 && errno != EEXIST) {
            rc = -errno;
        }
        close_place(&p);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int fs_mkdir(lua_State *L)
{
    int rc = make_dirs(L, check_path(L, 1));
    return rc < 0 ? fail(L, "make", rc) : ok(L);
}

static int fs_remove(lua_State *L)
{
    struct place p;
    int rc = open_place(L, check_path(L, 1), &p);
    if (rc == 0 && unlinkat(p.dir, p.name, 0) != 0) {
        rc = errno == EISDIR && unlinkat(p.dir, p.name, AT_REMOVEDIR) == 0 ? 0 : -errno;
    }
    close_place(&p);
    return rc < 0 ? fail(L, "remove", rc) : ok(L);
}

static int fs_rename(lua_State *L)
{
    struct place from, to = {.dir = -1};
    const char *old = check_path(L, 1), *new = check_path(L, 2);
    int rc = open_place(L, old, &from);
    if (rc == 0) {
        rc = open_place(L, new, &to);
    }
    if (rc == 0 && renameat(from.dir, from.name, to.dir, to.name) != 0) {
        rc = -errno;
    }
    close_place(&from);
    close_place(&to);
    return rc < 0 ? fail(L, "rename", rc) : ok(L);
}

static int fs_copy(lua_State *L)
{
    struct place to = {.dir = -1};
    struct buf text;
    const char *old = check_path(L, 1), *new = check_path(L, 2);
    int rc = read_path(L, old, &text);
    if (rc == 0) {
        rc = open_place(L, new, &to);
    }
    if (rc == 0) {
        rc = replace_file(far__of(L), &to, buf_str(&text));
    }
    close_place(&to);
    buf_fini(&text);
    return rc < 0 ? fail(L, "copy", rc) : ok(L);
}

int far__open_fs(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"read", fs_read},     {"write", fs_write},   {"append", fs_append}, {"exists", fs_exists},
        {"is_dir", fs_is_dir}, {"list", fs_list},     {"stat", fs_stat},     {"mkdir", fs_mkdir},
        {"remove", fs_remove}, {"rename", fs_rename}, {"copy", fs_copy},     {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}
