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

static bool is_passed_on(const char *entry)
{
    static const char *const names[] = {"PATH", "HOME",   "USER", "LOGNAME", "SHELL",
                                        "LANG", "TMPDIR", "TZ",   "TERM",    "LANGUAGE"};
    struct str rest = str_of(entry);
    struct str name = str_cut(&rest, '=');
    return str_lookup(name, names, ARRAY_LEN(names)) >= 0 || str_starts(name, "LC_") ||
           str_starts(name, "XDG_");
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
