// os.execute and io.popen without blocking the hub: the Lua code waits, the loop does not.
//
// io.popen runs the command to its end and then returns a file with its output, so it is not for interactive commands, and
// writing to a command is not possible.

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "bind/bind_int.h"
#include "bind/exec.h"
#include "bind/faces.h"

extern char **environ; // the hub's own, which children get a part of

// ---- environment ------------------------------------------------------------------------------

const char *const *bind__environment(struct arena *a, bool boxed)
{
    static const char *const names[] = {"PATH", "HOME", "USER", "LOGNAME", "SHELL",
                                        "LANG", "TZ",   "TERM", "LANGUAGE"};
    size_t n = 0;
    const char **env = arena_calloc(a, str_count((const char *const *)environ) + 1, sizeof *env);
    for (char **e = environ; *e != NULL; e++) {
        struct str rest = str_of(*e), name = str_cut(&rest, '=');
        if (str_lookup(name, names, ARRAY_LEN(names)) >= 0 || str_starts(name, "LC_") ||
            str_starts(name, "XDG_") || (str_eqz(name, "TMPDIR") && !boxed)) {
            env[n++] = arena_strdup(a, str_of(*e));
        }
    }
    return env;
}

// ---- os.execute -------------------------------------------------------------------------------

/// Push how a command ended, as Lua's own functions do: true or nil, "exit" or "signal", the number.
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
    const char *command = args_z(L, 1, fn, "the command");
    lua_settop(L, 1);
    lua_settop(L, 2); // no callback
    bind__op_check(L, 2, fn);
    struct arena *a = &args_scratch(L)->arena;
    const char **argv = arena_copy_list(a, (const char *const[]){"/bin/sh", "-c", command, NULL});
    return exec_run(L, a, &(struct exec_spec){.argv = argv, .shown = argv[2]}, 2, push);
}

int face_os_execute(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        return args_bool(L, true); // there is a shell
    }
    return shell(L, "os.execute", push_status);
}

// ---- io.popen ---------------------------------------------------------------------------------

static int close_popen(lua_State *L)
{
    struct io_file *f = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    (void)bind__io_close(f);
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
    struct io_file *f = bind__io_new(L, "io.popen");
    FILE *file = f != NULL ? memory_file(r->out) : NULL;
    if (f != NULL && file == NULL) {
        return args_fail(L, "io.popen: %s", err_text(-errno));
    }
    if (f != NULL) {
        f->code = r->code;
        f->signal = r->signal;
        bind__io_opened(f, file, close_popen);
    }
    return f != NULL ? 1 : 2;
}

int face_io_popen(lua_State *L)
{
    if (!lua_isnoneornil(L, 2) && strcmp(args_z(L, 2, "io.popen", "mode"), "r") != 0) {
        return luaL_error(L, "io.popen: commands can only be read from: use exec{stdin = ...}");
    }
    return shell(L, "io.popen", push_file);
}
