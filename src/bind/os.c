// os.execute and io.popen without blocking the hub: the code waits, the loop does not. And the files
// of io: what could block in open() or read() is not opened at all.
//
// io.popen runs the command to its end first and then gives a file over what it said, so a command
// that talks back and forth is not for it, and neither is writing to one.

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "bind/bind_int.h"
#include "bind/exec.h"
#include "bind/faces.h"

extern char **environ; // the hub's own, which children get a part of

// ---- environment ------------------------------------------------------------------------------

static bool is_passed_on(const char *entry)
{
    static const char *const names[] = {"PATH", "HOME",   "USER", "LOGNAME", "SHELL",
                                        "LANG", "TMPDIR", "TZ",   "TERM",    "LANGUAGE"};
    struct str rest = str_of(entry);
    struct str name = str_cut(&rest, '=');
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eqz(name, names[i])) {
            return true;
        }
    }
    return str_starts(name, "LC_") || str_starts(name, "XDG_");
}

char **bind__environment(void)
{
    vec(char *) env = {0};
    for (char **e = environ; *e != NULL; e++) {
        if (is_passed_on(*e)) {
            vec_push(&env, xstrdup(*e));
        }
    }
    vec_push(&env, NULL);
    return env.p;
}

void bind__environment_free(char **env)
{
    for (char **e = env; e != NULL && *e != NULL; e++) {
        free(*e);
    }
    free(env);
}

// ---- os.execute -------------------------------------------------------------------------------

/// As Lua says how a command ended: true or nil, "exit" or "signal", the number.
static int push_ending(lua_State *L, int code, int signal)
{
    if (signal == 0 && code == 0) {
        lua_pushboolean(L, 1);
    } else {
        lua_pushnil(L);
    }
    lua_pushstring(L, signal != 0 ? "signal" : "exit");
    lua_pushinteger(L, signal != 0 ? signal : code);
    return 3;
}

static int push_status(lua_State *L, const struct exec_result *r)
{
    return push_ending(L, r->code, r->signal);
}

static int shell(lua_State *L, const char *fn, exec_push *push)
{
    const char *argv[] = {"/bin/sh", "-c", args_z(L, 1, fn, "the command"), NULL};
    struct exec_spec spec = {.argv = argv, .shown = argv[2]};
    lua_settop(L, 1);
    bind__op_check(L, 2, fn);
    return exec_run(L, &spec, 2, push);
}

int face_os_execute(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        lua_pushboolean(L, 1); // there is a shell
        return 1;
    }
    return shell(L, "os.execute", push_status);
}

// ---- io.popen ---------------------------------------------------------------------------------

/// Lua's own kind of file, with how the command ended behind it.
struct popen_file {
    luaL_Stream stream; // first: Lua's functions see only this
    int code, signal;
};

static int popen_close(lua_State *L)
{
    struct popen_file *f = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    fclose(f->stream.f);
    return push_ending(L, f->code, f->signal);
}

/// A file in memory that holds `text`; NULL with errno set.
static FILE *memory_file(struct str text)
{
    int fd = memfd_create("popen", MFD_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    bool whole = text.n == 0 || write(fd, text.p, text.n) == (ssize_t)text.n;
    FILE *f = whole && lseek(fd, 0, SEEK_SET) == 0 ? fdopen(fd, "r") : NULL;
    if (f == NULL) {
        close(fd);
    }
    return f;
}

static int push_file(lua_State *L, const struct exec_result *r)
{
    FILE *file = memory_file(r->out);
    if (file == NULL) {
        return args_fail(L, "io.popen: %s", err_text(-errno));
    }
    struct popen_file *f = lua_newuserdatauv(L, sizeof *f, 0);
    *f = (struct popen_file){{file, popen_close}, r->code, r->signal};
    luaL_setmetatable(L, LUA_FILEHANDLE);
    return 1;
}

int face_io_popen(lua_State *L)
{
    if (!lua_isnoneornil(L, 2) && strcmp(args_z(L, 2, "io.popen", "mode"), "r") != 0) {
        return luaL_error(L, "io.popen: commands can only be read from: use exec{stdin = ...}");
    }
    return shell(L, "io.popen", push_file);
}

// ---- files of io --------------------------------------------------------------------------------

/// Can it be opened and read without waiting for anybody? What is not there can. Of the devices only
/// those of memory: null, zero, full, urandom.
static bool never_blocks(const char *path)
{
    enum { MEMORY_DEVICES = 1 };
    struct stat st;
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
        return true;
    }
    return S_ISCHR(st.st_mode) && major(st.st_rdev) == MEMORY_DEVICES;
}

/// In the place of a function of io; its upvalues are Lua's own function and its name.
static int checked(lua_State *L)
{
    const char *name = lua_tostring(L, lua_upvalueindex(2));
    if (lua_type(L, 1) == LUA_TSTRING && !never_blocks(lua_tostring(L, 1))) {
        lua_pushfstring(L, "%s: '%s' is no file and could stop the hub: use exec", name,
                        lua_tostring(L, 1));
        if (strcmp(name, "io.open") != 0) {
            return lua_error(L);
        }
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    if (lua_type(L, 1) == LUA_TSTRING) {
        const char *mode = strcmp(name, "io.open") == 0 ? luaL_optstring(L, 2, "r") : "r";
        bool writes = strcmp(name, "io.output") == 0 || strpbrk(mode, "wa+") != NULL;
        (writes ? bind__note_write : bind__note_read)(L, lua_tostring(L, 1));
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

void face_io_files(struct vm *vm)
{
    static const char *const names[] = {"open", "lines", "input", "output"};
    lua_State *L = vm_main(vm);
    lua_getglobal(L, "io");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        lua_getfield(L, -1, names[i]);
        lua_pushfstring(L, "io.%s", names[i]);
        lua_pushcclosure(L, checked, 2);
        lua_setfield(L, -2, names[i]);
    }
    lua_pop(L, 1);
}
