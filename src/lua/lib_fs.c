// fs: files. read, write, append, exists, is_dir, list, stat, mkdir, remove, rename, copy.
//
//     fs.read(path[, callback]) ── checks ── job ── backend.run ──┬── lib_fs_now: work, push
//                                                                 └── lib_fs_keep: work on a thread, push later
//
// The backend decides which paths code may name, opens them and makes the changes. Here is the work on an
// open file, with the answers and the messages. While a file loads, the functions that change nothing
// answer at once; the others raise, unless they have a callback.
//
// Building an answer may raise (a limit was passed), so a job belongs to a userdata until the backend keeps
// it.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "lua/args.h"
#include "lua/lib.h"
#include "lua/value.h"
#include "lua/vm_int.h"

enum { READ_MAX = 8 << 20, COPY_MAX = 64 << 20, LIST_MAX = 100000 };
enum second { NOTHING, BYTES, PATH }; // what comes after the path

struct lib_fs_fn {
    const char *name, *verb; // "cannot VERB 'path': ..."
    enum second second;
    bool reads;
    size_t max;                                      // of what is read
    int (*work)(struct lib_fs_job *j);               // on any thread; 0 or a negative code
    int (*push)(lua_State *L, struct lib_fs_job *j); // NULL: true
};

// ---- the work, on any thread ----------------------------------------------------------------

static int work_read(struct lib_fs_job *j)
{
    // not blocking: a FIFO must not hang us
    int fd = j->fs->open(j->arg, j->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return fd;
    }
    int rc = path_read_fd(fd, &j->bytes, &j->st);
    close(fd);
    return rc;
}

static int work_write(struct lib_fs_job *j)
{
    return j->fs->write(j->arg, j->path, buf_str(&j->bytes), 0);
}

static int work_append(struct lib_fs_job *j)
{
    return j->fs->append(j->arg, j->path, buf_str(&j->bytes));
}

static int work_stat(struct lib_fs_job *j)
{
    int fd = j->fs->open(j->arg, j->path, O_PATH);
    if (fd < 0) {
        return fd;
    }
    int rc = fstat(fd, &j->st) == 0 ? 0 : -errno;
    close(fd);
    return rc;
}

static int work_exists(struct lib_fs_job *j)
{
    j->found = work_stat(j) == 0;
    return 0;
}

static int work_is_dir(struct lib_fs_job *j)
{
    j->found = work_stat(j) == 0 && S_ISDIR(j->st.st_mode);
    return 0;
}

static int work_list(struct lib_fs_job *j)
{
    int fd = j->fs->open(j->arg, j->path, O_RDONLY | O_DIRECTORY);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        return fd < 0 ? fd : (close(fd), -ENOMEM);
    }
    struct folder f = {.stream = d};
    while (j->names.n <= LIST_MAX && folder_next(&f)) {
        vec_push(&j->names, xstrdup(f.name));
    }
    folder_close(&f);
    if (j->names.n > LIST_MAX) {
        return ERR_TOO_LARGE;
    }
    str_sort((void *)j->names.p, j->names.n);
    return 0;
}

static int work_mkdir(struct lib_fs_job *j)
{
    return j->fs->mkdir(j->arg, j->path);
}

static int work_remove(struct lib_fs_job *j)
{
    return j->fs->remove(j->arg, j->path);
}

static int work_rename(struct lib_fs_job *j)
{
    return j->fs->rename(j->arg, j->path, j->other);
}

static int work_copy(struct lib_fs_job *j)
{
    int rc = work_read(j);
    return rc < 0 ? rc : j->fs->write(j->arg, j->other, buf_str(&j->bytes), j->st.st_mode & 07777);
}

// ---- answers --------------------------------------------------------------------------------

static int push_bytes(lua_State *L, struct lib_fs_job *j)
{
    if (!vm_make_room(vm_of(L), j->bytes.n)) {
        return args_fail(L, "fs.read: no room for the %zu bytes of '%s' in the memory limit",
                         j->bytes.n, j->path);
    }
    lua_pushlstring(L, buf_z(&j->bytes), j->bytes.n);
    return 1;
}

static int push_found(lua_State *L, struct lib_fs_job *j)
{
    return args_bool(L, j->found);
}

static int push_stat(lua_State *L, struct lib_fs_job *j)
{
    const struct stat *st = &j->st;
    lua_createtable(L, 0, 4);
    value_set_str(L, "type",
                  S_ISDIR(st->st_mode)   ? "directory"
                  : S_ISREG(st->st_mode) ? "file"
                                         : "other");
    value_set_int(L, "size", st->st_size);
    value_set_int(L, "mode", st->st_mode & 07777);
    lua_pushnumber(L, (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec / 1e9);
    value_set(L, "mtime");
    return 1;
}

static int push_names(lua_State *L, struct lib_fs_job *j)
{
    lua_createtable(L, (int)j->names.n, 0);
    for (size_t i = 0; i < j->names.n; i++) {
        lua_pushstring(L, j->names.p[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    value_mark_array(L);
    return 1;
}

int lib_fs_push(lua_State *L, struct lib_fs_job *j)
{
    if (j->rc < 0) {
        bool outside = j->rc == -EXDEV && j->fs->outside != NULL;
        return args_fail(L, "cannot %s '%s'%s%s%s: %s", j->fn->verb, j->path,
                         j->other != NULL ? " to '" : "", j->other != NULL ? j->other : "",
                         j->other != NULL ? "'" : "", outside ? j->fs->outside : err_text(j->rc));
    }
    return j->fn->push != NULL ? j->fn->push(L, j) : args_bool(L, true);
}

static const struct lib_fs_fn functions[] = {
    {"fs.read", "read", NOTHING, true, READ_MAX, work_read, push_bytes},
    {"fs.write", "write", BYTES, false, SIZE_MAX, work_write, NULL},
    {"fs.append", "append to", BYTES, false, SIZE_MAX, work_append, NULL},
    {"fs.exists", "look at", NOTHING, true, 0, work_exists, push_found},
    {"fs.is_dir", "look at", NOTHING, true, 0, work_is_dir, push_found},
    {"fs.list", "list", NOTHING, true, 0, work_list, push_names},
    {"fs.stat", "look at", NOTHING, true, 0, work_stat, push_stat},
    {"fs.mkdir", "make", NOTHING, false, 0, work_mkdir, NULL},
    {"fs.remove", "remove", NOTHING, false, 0, work_remove, NULL},
    {"fs.rename", "rename", PATH, false, 0, work_rename, NULL},
    {"fs.copy", "copy", PATH, false, COPY_MAX, work_copy, NULL},
};

// ---- jobs -----------------------------------------------------------------------------------

void lib_fs_keep(struct lib_fs_job *j)
{
    assert(j->box != NULL && *j->box == j);
    *j->box = NULL;
    j->box = NULL;
}

void lib_fs_free(struct lib_fs_job *j)
{
    assert(j->box == NULL);
    vec_fini_each(&j->names, free);
    buf_fini(&j->bytes);
    free(j->path);
    free(j->other);
    free(j);
}

void lib_fs_work(struct lib_fs_job *j)
{
    j->rc = j->fn->work(j);
}

int lib_fs_now(lua_State *L, struct lib_fs_job *j, size_t max)
{
    assert(j->box != NULL);
    if (j->reads) {
        j->bytes.max = MIN(j->bytes.max, max);
    }
    lib_fs_work(j);
    return lib_fs_push(L, j);
}

static int box_gc(lua_State *L)
{
    struct lib_fs_job **box = lua_touserdata(L, 1), *j = *box;
    if (j != NULL) {
        lib_fs_keep(j);
        lib_fs_free(j);
    }
    return 0;
}

static struct lib_fs_job *push_job(lua_State *L, const struct lib_fs_fn *fn)
{
    struct lib_fs_job **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    if (luaL_newmetatable(L, "afloat.fs")) {
        lua_pushcfunction(L, box_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    struct lib_fs_job *j = *box = xcalloc(1, sizeof *j);
    j->fn = fn;
    j->name = fn->name;
    j->reads = fn->reads;
    j->fs = vm_of(L)->backend->fs;
    j->arg = vm_arg(vm_of(L));
    j->box = box;
    buf_init(&j->bytes, fn->max);
    return j;
}

bool lib_is_loading(lua_State *L)
{
    const struct entry *en = entry_running(vm_of(L));
    return en != NULL && en->kind == ENTRY_LOAD;
}

static int fs_call(lua_State *L)
{
    const struct lib_fs_fn *fn = lua_touserdata(L, lua_upvalueindex(1));
    const struct lib_fs *fs = vm_of(L)->backend->fs;
    const char *other = NULL;
    struct str bytes = STR_NULL;
    int callback = fn->second == NOTHING ? 2 : 3;
    lua_settop(L, callback);
    if (fn->work == work_list && fs->top != NULL && lua_isnil(L, 1)) {
        lua_pushstring(L, fs->top);
        lua_replace(L, 1);
    }
    const char *path = args_z(L, 1, fn->name, "path");
    if (fn->second == PATH) {
        other = args_z(L, 2, fn->name, "the second path");
    } else if (fn->second == BYTES) {
        bytes = args_str(L, 2, fn->name, "the text");
    }
    if (!lua_isnil(L, callback)) {
        args_fn(L, callback, fn->name);
    } else if (!fn->reads && lib_is_loading(L)) {
        entry_check_wait(L); // says why it cannot
    }
    struct lib_fs_job *j = push_job(L, fn);
    j->path = fs->resolve(path);
    j->other = other != NULL ? fs->resolve(other) : NULL;
    if (j->path == NULL || (other != NULL && j->other == NULL)) {
        return args_fail(L, "%s: '%s' is not an absolute path", fn->name,
                         j->path == NULL ? path : other);
    }
    buf_adds(&j->bytes, bytes);
    return fs->run(L, j, callback);
}

int lib_fs_open(lua_State *L)
{
    lua_createtable(L, 0, ARRAY_LEN(functions));
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        const void *fn = &functions[i];
        lua_pushlightuserdata(L, (void *)(uintptr_t)fn);
        lua_pushcclosure(L, fs_call, 1);
        lua_setfield(L, -2, functions[i].name + strlen("fs."));
    }
    return 1;
}
