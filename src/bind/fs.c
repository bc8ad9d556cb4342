// fs: files, on threads.
//
// Any of these calls can hang on a dead mount or a slow disk, so each is a job of a lane, keyed by
// its mount: one dead mount leaves threads for the others. Code gets the answer in a callback or
// waits for it.
//
// While a file loads it may not wait. What an init file needs then (read, exists, is_dir, list,
// stat) is done on the spot, for paths that are not on a network mount and up to 1 MiB.
//
//     read(path) ─┬─ callback or waiting ──> job on a thread ──> answer
//                 └─ at load ──> local? ──> the same job, here and now
//
// Paths are absolute or begin with `~/`: the hub has no current directory of its own.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lauxlib.h>

#include "base/path.h"
#include "bind/bind_int.h"
#include "bind/faces.h"

enum {
    READ_MAX = 8 << 20,
    LOAD_MAX = 1 << 20,
    COPY_MAX = 64 << 20,
    LIST_MAX = 100000,
};

struct job;

enum second { NOTHING, BYTES, PATH }; // what comes after the path

struct fs_fn {
    const char *name;
    enum second second;
    bool at_load;
    size_t max;                                // of what is read or written
    int (*work)(struct job *j, struct err *e); // on a thread
    int (*push)(lua_State *L, struct job *j);  // what it gives; NULL: true
};

struct job {
    struct bind_op op;
    const struct fs_fn *fn;
    char *path, *other; // `other`: NULL unless there is one
    struct buf bytes;   // to write, or what was read
    struct stat st;
    bool found;
    vec(char *) names;
    int rc;
    struct err e;
};

// ---- the work, on threads ---------------------------------------------------------------------

static int work_read(struct job *j, struct err *e)
{
    return path_read(j->path, &j->bytes, e);
}

/// The file behind `path`, for writing to where a link leads; as it is when there is none.
static char *behind_link(const char *path)
{
    char *real = realpath(path, NULL);
    return real != NULL ? real : xstrdup(path);
}

static int make_parent(const char *path, struct err *e)
{
    char *dir = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(dir, 0755, e);
    free(dir);
    return rc;
}

static int replace(const char *path, struct str bytes, mode_t mode, struct err *e)
{
    struct stat st;
    char *real = behind_link(path);
    if (stat(real, &st) == 0) {
        mode = st.st_mode & 07777;
    }
    int rc = make_parent(real, e);
    if (rc == 0) {
        rc = path_write_atomic(real, bytes, mode, e);
    }
    free(real);
    return rc;
}

static int work_write(struct job *j, struct err *e)
{
    return replace(j->path, buf_str(&j->bytes), 0644, e);
}

static int write_all(int fd, struct str bytes)
{
    while (bytes.n != 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        bytes = str_from(bytes, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static int work_append(struct job *j, struct err *e)
{
    // not blocking: nobody may read a FIFO
    int fd = open(j->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (fd < 0) {
        return err_sys(e, "cannot open '%s'", j->path);
    }
    int rc = write_all(fd, buf_str(&j->bytes));
    close(fd);
    return rc < 0 ? err_set(e, rc, "cannot write '%s': %s", j->path, err_text(rc)) : 0;
}

static int work_exists(struct job *j, struct err *e)
{
    (void)e;
    j->found = stat(j->path, &j->st) == 0;
    return 0;
}

static int work_is_dir(struct job *j, struct err *e)
{
    (void)e;
    j->found = stat(j->path, &j->st) == 0 && S_ISDIR(j->st.st_mode);
    return 0;
}

static int work_stat(struct job *j, struct err *e)
{
    return stat(j->path, &j->st) == 0 ? 0 : err_sys(e, "cannot stat '%s'", j->path);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int work_list(struct job *j, struct err *e)
{
    DIR *d = opendir(j->path);
    if (d == NULL) {
        return err_sys(e, "cannot list '%s'", j->path);
    }
    const struct dirent *entry;
    while ((entry = readdir(d)) != NULL && j->names.n <= LIST_MAX) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            vec_push(&j->names, xstrdup(entry->d_name));
        }
    }
    closedir(d);
    if (j->names.n > LIST_MAX) {
        return err_set(e, ERR_TOO_LARGE, "'%s' has more than %d entries", j->path, LIST_MAX);
    }
    if (j->names.n != 0) {
        qsort(j->names.p, j->names.n, sizeof *j->names.p, by_bytes);
    }
    return 0;
}

static int work_mkdir(struct job *j, struct err *e)
{
    return path_mkdirs(j->path, 0755, e);
}

static int work_remove(struct job *j, struct err *e)
{
    return remove(j->path) == 0 ? 0 : err_sys(e, "cannot remove '%s'", j->path);
}

static int work_rename(struct job *j, struct err *e)
{
    int rc = rename(j->path, j->other);
    return rc == 0 ? 0 : err_sys(e, "cannot rename '%s' to '%s'", j->path, j->other);
}

static int work_copy(struct job *j, struct err *e)
{
    int rc = path_read(j->path, &j->bytes, e);
    if (rc == 0 && stat(j->path, &j->st) < 0) {
        rc = err_sys(e, "cannot stat '%s'", j->path);
    }
    return rc == 0 ? replace(j->other, buf_str(&j->bytes), j->st.st_mode & 07777, e) : rc;
}

// ---- what Lua gets ----------------------------------------------------------------------------

static int push_bytes(lua_State *L, struct job *j)
{
    if (!vm_has_room(vm_of(L), j->bytes.n)) {
        return bind__fail(L, "fs.read: no room for the %zu bytes of '%s' in the memory limit",
                          j->bytes.n, j->path);
    }
    lua_pushlstring(L, buf_z(&j->bytes), j->bytes.n);
    return 1;
}

static int push_found(lua_State *L, struct job *j)
{
    lua_pushboolean(L, j->found);
    return 1;
}

static const char *type_name(mode_t mode)
{
    if (S_ISDIR(mode)) {
        return "directory";
    }
    return S_ISREG(mode) ? "file" : "other";
}

static int push_stat(lua_State *L, struct job *j)
{
    const struct stat *st = &j->st;
    lua_createtable(L, 0, 4);
    lua_pushstring(L, type_name(st->st_mode));
    lua_setfield(L, -2, "type");
    lua_pushinteger(L, st->st_size);
    lua_setfield(L, -2, "size");
    lua_pushnumber(L, (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec / 1e9);
    lua_setfield(L, -2, "mtime");
    lua_pushinteger(L, st->st_mode & 07777);
    lua_setfield(L, -2, "mode");
    return 1;
}

static int push_names(lua_State *L, struct job *j)
{
    lua_createtable(L, (int)j->names.n, 0);
    for (size_t i = 0; i < j->names.n; i++) {
        lua_pushstring(L, j->names.p[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    value_mark_array(L);
    return 1;
}

static int push_answer(lua_State *L, struct job *j)
{
    if (j->rc < 0) {
        return bind__fail(L, "%s", j->e.msg);
    }
    if (j->fn->push != NULL) {
        return j->fn->push(L, j);
    }
    lua_pushboolean(L, 1);
    return 1;
}

static const struct fs_fn functions[] = {
    {"fs.read", NOTHING, true, READ_MAX, work_read, push_bytes},
    {"fs.write", BYTES, false, SIZE_MAX, work_write, NULL},
    {"fs.append", BYTES, false, SIZE_MAX, work_append, NULL},
    {"fs.exists", NOTHING, true, 0, work_exists, push_found},
    {"fs.is_dir", NOTHING, true, 0, work_is_dir, push_found},
    {"fs.list", NOTHING, true, 0, work_list, push_names},
    {"fs.stat", NOTHING, true, 0, work_stat, push_stat},
    {"fs.mkdir", NOTHING, false, 0, work_mkdir, NULL},
    {"fs.remove", NOTHING, false, 0, work_remove, NULL},
    {"fs.rename", PATH, false, 0, work_rename, NULL},
    {"fs.copy", PATH, false, COPY_MAX, work_copy, NULL},
};

// ---- jobs -------------------------------------------------------------------------------------

static void job_free(struct job *j)
{
    vec_foreach (name, &j->names) {
        free(*name);
    }
    vec_fini(&j->names);
    buf_fini(&j->bytes);
    free(j->path);
    free(j->other);
    free(j);
}

static void on_work(void *arg)
{
    struct job *j = arg;
    j->rc = j->fn->work(j, &j->e);
}

static void on_done(void *arg)
{
    struct job *j = arg;
    lua_State *L = bind__op_answer_begin(&j->op);
    if (L != NULL) {
        bind__op_answer(&j->op, push_answer(L, j));
    }
    job_free(j);
}

static void job_start(struct bind_op *op)
{
    struct job *j = container_of(op, struct job, op);
    work_submit(op->o->bind->files, work_mount_key(j->path), on_work, on_done, j);
}

static void job_cancel(struct bind_op *op)
{
    if (op->queued) {
        job_free(container_of(op, struct job, op));
    } // else the thread finishes it, and on_done() frees it
}

static struct job *job_new(lua_State *L, const struct fs_fn *fn)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->fn = fn;
    j->path = path_expand_home(lua_tostring(L, 1));
    buf_init(&j->bytes, fn->max);
    if (fn->second == PATH) {
        j->other = path_expand_home(lua_tostring(L, 2));
    } else if (fn->second == BYTES) {
        size_t n;
        const char *p = lua_tolstring(L, 2, &n);
        buf_add(&j->bytes, p, n);
    }
    return j;
}

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
        bool inside =
            strncmp(path, entry.mnt_dir, n) == 0 && (n == 1 || path[n] == '/' || path[n] == '\0');
        if (!inside || n < best) {
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

static int box_gc(lua_State *L)
{
    struct job **box = lua_touserdata(L, 1);
    if (*box != NULL) {
        job_free(*box);
    }
    return 0;
}

/// Do it now, for a file that loads. Building the answer may raise: the job lies in a box.
static int do_now(lua_State *L, const struct fs_fn *fn)
{
    struct job **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    if (luaL_newmetatable(L, "afloat.fs")) {
        lua_pushcfunction(L, box_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    struct job *j = *box = job_new(L, fn);
    buf_init(&j->bytes, LOAD_MAX);
    if (is_remote(j->path)) {
        return bind__fail(L, "%s: cannot wait here: '%s' is on a network mount", fn->name, j->path);
    }
    bind__note_read(L, j->path);
    on_work(j);
    return push_answer(L, j);
}

static bool is_loading(lua_State *L)
{
    const struct entry *en = entry_running(vm_of(L));
    return en != NULL && en->kind == ENTRY_LOAD;
}

static bool is_place(const char *path)
{
    return path[0] == '/' || strcmp(path, "~") == 0 || strncmp(path, "~/", 2) == 0;
}

static int l_call(lua_State *L)
{
    const struct fs_fn *fn = lua_touserdata(L, lua_upvalueindex(1));
    int callback = fn->second == NOTHING ? 2 : 3;
    const char *path = bind__check_z(L, 1, fn->name, "path");
    const char *other = "/";
    if (fn->second == PATH) {
        other = bind__check_z(L, 2, fn->name, "the second path");
    } else if (fn->second == BYTES) {
        bind__check_str(L, 2, fn->name, "the text");
    }
    if (!is_place(path) || !is_place(other)) {
        return bind__fail(L, "%s: '%s' is not an absolute path", fn->name,
                          is_place(path) ? other : path);
    }
    if (fn->at_load && is_loading(L) && lua_isnoneornil(L, callback)) {
        return do_now(L, fn);
    }
    bind__op_check(L, callback, fn->name);
    struct job *j = job_new(L, fn);
    if (!fn->at_load) { // those that change files
        bind__note_write(L, NULL);
    }
    int refused = bind__line_take(L, &j->op, LINE_FS, sizeof *j + j->bytes.n, fn->name);
    if (refused != 0) {
        job_free(j);
        return refused;
    }
    if (bind__line_enter(&j->op, job_start)) {
        job_start(&j->op);
    }
    return bind__op_begin(L, &j->op, callback, job_cancel);
}

int face_fs(lua_State *L)
{
    lua_createtable(L, 0, ARRAY_LEN(functions));
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        const void *fn = &functions[i];
        lua_pushlightuserdata(L, (void *)(uintptr_t)fn);
        lua_pushcclosure(L, l_call, 1);
        lua_setfield(L, -2, functions[i].name + strlen("fs."));
    }
    return 1;
}
