// The files of Lua's io library: counted, and only files that cannot block the hub.
//
//     path ──open, non-blocking──> a descriptor ──is it a file?──yes──> Lua's own kind of file
//                                                     └──no──> closed: refused
//
// open() or read() of a pipe, a socket or a terminal blocks the hub until its other end acts. The descriptor is checked, not
// the path: between a check of the path and the open, a pipe could take the place of the file.
//
// A file stays open until it is closed or collected, whichever version of the plugin opened it, so files are counted for
// the Lua state. At the limit garbage is collected first: code that never closes its files keeps working.
//
// Invariant: the counter is the number of files of the state whose `closef` is ours.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"

static char counter_key; // in the registry

struct io_file *bind__io_new(lua_State *L, const char *fn)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &counter_key);
    unsigned *open = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (bind__quota_full(QUOTA_FILE, *open)) {
        lua_gc(L, LUA_GCCOLLECT);
    }
    if (bind__quota_full(QUOTA_FILE, *open)) {
        bind__quota_refuse(L, QUOTA_FILE, fn);
        return NULL;
    }
    struct io_file *f = lua_newuserdatauv(L, sizeof *f, 0);
    *f = (struct io_file){.open = open}; // closed, as Lua sees it
    luaL_setmetatable(L, LUA_FILEHANDLE);
    return f;
}

void bind__io_opened(struct io_file *f, FILE *file, lua_CFunction close)
{
    assert(f->stream.closef == NULL && file != NULL);
    f->stream = (luaL_Stream){file, close};
    ++*f->open;
}

int bind__io_close(struct io_file *f)
{
    assert(*f->open > 0);
    --*f->open;
    return fclose(f->stream.f);
}

static int close_file(lua_State *L)
{
    return luaL_fileresult(L, bind__io_close(luaL_checkudata(L, 1, LUA_FILEHANDLE)) == 0, NULL);
}

/// The flags for a mode of fopen(); negative: the mode is invalid.
static int flags_of(const char *mode)
{
    bool both = mode[0] != '\0' && mode[1] == '+';
    int flags = both ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    if (mode[0] == '\0' || strchr("rwa", mode[0]) == NULL ||
        mode[1 + both + strspn(mode + 1 + both, "b")] != '\0') {
        return -1;
    }
    return flags | (mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT | O_APPEND : 0);
}

/// Push the file, or nil, a message and a number.
static int push_opened(lua_State *L, const char *fn, const char *path, const char *mode)
{
    int flags = flags_of(mode);
    if (flags < 0) {
        return luaL_argerror(L, 2, "invalid mode");
    }
    struct io_file *f = bind__io_new(L, fn);
    if (f == NULL) {
        return 2;
    }
    (flags & O_ACCMODE ? bind__note_write : bind__note_read)(L, path);
    int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fd < 0 && errno != ENXIO) { // which is a pipe without a reader, or a socket
        return luaL_fileresult(L, 0, path);
    }
    enum { MEMORY_DEVICES = 1 }; // of the devices only null, zero, full and urandom never wait
    struct stat st;
    bool waits = fd < 0 || fstat(fd, &st) < 0 ||
                 !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ||
                   (S_ISCHR(st.st_mode) && major(st.st_rdev) == MEMORY_DEVICES));
    if (waits) {
        if (fd >= 0) {
            close(fd);
        }
        return args_fail(L, "%s: '%s' is not a regular file and could block the hub; use exec", fn,
                         path);
    }
    FILE *file = fdopen(fd, mode);
    if (file == NULL) {
        close(fd);
        return args_fail(L, "%s: '%s': no memory", fn, path);
    }
    bind__io_opened(f, file, close_file);
    return 1;
}

/// The same, or an error is raised.
static void need_opened(lua_State *L, const char *fn, const char *path, const char *mode)
{
    if (push_opened(L, fn, path, mode) != 1) {
        lua_settop(L, lua_isinteger(L, -1) ? -2 : -1); // without the number
        lua_error(L);
    }
}

static int io_open(lua_State *L)
{
    return push_opened(L, "io.open", luaL_checkstring(L, 1), luaL_optstring(L, 2, "r"));
}

static int io_tmpfile(lua_State *L)
{
    struct io_file *f = bind__io_new(L, "io.tmpfile");
    FILE *file = f != NULL ? tmpfile() : NULL;
    if (f == NULL || file == NULL) {
        return f == NULL ? 2 : luaL_fileresult(L, 0, NULL);
    }
    bind__io_opened(f, file, close_file);
    return 1;
}

/// io.lines: for a named file it also returns the values that close the file at the end of a loop.
static int io_lines(lua_State *L)
{
    int n = lua_gettop(L);
    if (lua_type(L, 1) != LUA_TSTRING) {
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_insert(L, 1);
        lua_call(L, n, LUA_MULTRET);
        return lua_gettop(L);
    }
    need_opened(L, "io.lines", lua_tostring(L, 1), "r");
    lua_replace(L, 1);
    lua_getfield(L, 1, "lines");
    lua_insert(L, 1);
    lua_pushvalue(L, 2);
    lua_insert(L, 1);
    lua_call(L, n, 1);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushvalue(L, 1);
    return 4;
}

/// io.input and io.output: a name becomes a file. The upvalues are Lua's own function, its name and the mode.
static int io_default(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TSTRING) {
        need_opened(L, lua_tostring(L, lua_upvalueindex(2)), lua_tostring(L, 1),
                    lua_tostring(L, lua_upvalueindex(3)));
        lua_replace(L, 1);
    }
    int n = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, n, LUA_MULTRET);
    return lua_gettop(L);
}

void face_io_files(struct vm *vm)
{
    static const struct {
        const char *name, *full, *mode;
        lua_CFunction fn;
    } files[] = {{"open", "io.open", "", io_open},
                 {"tmpfile", "io.tmpfile", "", io_tmpfile},
                 {"lines", "io.lines", "r", io_lines},
                 {"input", "io.input", "r", io_default},
                 {"output", "io.output", "w", io_default}};
    lua_State *L = vm_main(vm);
    unsigned *open = lua_newuserdatauv(L, sizeof *open, 0);
    *open = 0;
    lua_rawsetp(L, LUA_REGISTRYINDEX, &counter_key);
    lua_getglobal(L, "io");
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        lua_getfield(L, -1, files[i].name);
        lua_pushstring(L, files[i].full);
        lua_pushstring(L, files[i].mode);
        lua_pushcclosure(L, files[i].fn, 3);
        lua_setfield(L, -2, files[i].name);
    }
    lua_pop(L, 1);
}
