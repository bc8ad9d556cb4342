// What would this plugin register? Answered by running it where it can do no harm.
//
//     keep stdout for us ── policy_enter(): no file, no network, no process ── read the request
//         ── recorder.lua offers the user API and runs the plugin ── one answer ── the process goes
//
// Nothing of the plugin is believed: the process is locked in before the first byte of it is read, its
// time and memory are bounded here and by the process that started us, which trusts nothing in the
// answer. The recorder is Lua (runtime/host/recorder.lua), since all it does is collect tables.

#include "host/validate.h"

#include <fcntl.h>
#include <unistd.h>

#include <lauxlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/path.h"
#include "base/schema.h"
#include "hook/points.h"
#include "host/runtime.h"
#include "lua/entry.h"
#include "lua/refs.h"
#include "lua/value.h"
#include "proto/events.h"
#include "proto/ops.h"
#include "sandbox/policy.h"

enum {
    MEMORY = 256 << 20,    // bytes beside those of the program itself
    TEST_BUDGET_MS = 5000, // for all its tests
};

// ---- what the recorder gets -----------------------------------------------------------------

/// compile(text, chunk, env): a function with these globals, or an error that names the place.
static int l_compile(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);
    const char *chunk = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    luaL_argcheck(L, n <= VM_CHUNK_MAX, 1, "the file is larger than 1 MiB");
    if (luaL_loadbufferx(L, text, n, chunk, "t") != LUA_OK) {
        return lua_error(L);
    }
    lua_pushvalue(L, 3);
    lua_setupvalue(L, -2, 1);
    return 1;
}

/// nearest(name [, options]): the point or event that was meant, or the option, or nil.
static int l_nearest(lua_State *L)
{
    const char *names[POINT__COUNT + EVENT__COUNT];
    struct str word;
    word.p = luaL_checklstring(L, 1, &word.n);
    if (lua_istable(L, 2)) {
        size_t n = MIN((size_t)lua_rawlen(L, 2), ARRAY_LEN(names));
        luaL_checkstack(L, (int)n, NULL);
        for (size_t i = 0; i < n; i++) { // they stay on the stack
            lua_rawgeti(L, 2, (lua_Integer)i + 1);
            names[i] = luaL_checkstring(L, -1);
        }
        lua_pushstring(L, str_nearest(word, names, n));
        return 1;
    }
    for (size_t i = 0; i < POINT__COUNT; i++) {
        names[i] = hook_points[i].name;
    }
    for (size_t i = 0; i < EVENT__COUNT; i++) {
        names[POINT__COUNT + i] = event_infos[i].type;
    }
    lua_pushstring(L, str_nearest(word, names, ARRAY_LEN(names)));
    return 1;
}

/// check_schema(schema): what is wrong with it, or nil.
static int l_check_schema(lua_State *L)
{
    struct arena a = {0};
    struct json *schema;
    struct err e = {0};
    int rc = value_read(&schema, &a, L, 1, &e);
    rc = rc == 0 ? schema_check(schema, &e) : rc;
    lua_pushstring(L, rc < 0 && rc != ERR_UNSUPPORTED ? e.msg : NULL);
    arena_fini(&a);
    return 1;
}

static int push_args(lua_State *L, const struct json *request)
{
    value_push(L, request);
    lua_createtable(L, POINT__COUNT, 0);
    for (int i = 0; i < POINT__COUNT; i++) {
        lua_pushstring(L, hook_points[i].name);
        lua_rawseti(L, -2, i + 1);
    }
    lua_createtable(L, EVENT__COUNT, 0);
    for (int i = 0; i < EVENT__COUNT; i++) {
        lua_pushstring(L, event_infos[i].type);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushcfunction(L, l_compile);
    lua_pushcfunction(L, l_nearest);
    lua_newtable(L); // the operations
    for (int i = 0, n = 0; i < OP__COUNT; i++) {
        if ((ops[i].flags & OP_LUA) != 0) {
            lua_pushstring(L, ops[i].name);
            lua_rawseti(L, -2, ++n);
        }
    }
    lua_pushcfunction(L, l_check_schema);
    return 7;
}

// ---- the answer -----------------------------------------------------------------------------

/// A syntax error comes out of our own compile(), and its place is in its text: "PATH:3: unexpected".
static struct str cut_place(struct str message, struct str *path, int64_t *line)
{
    for (size_t i = 0; i < message.n && message.p[0] == '/'; i++) {
        struct str rest = str_from(message, i + 1);
        if (message.p[i] == ':' && str_to_i64(str_cut(&rest, ':'), line)) {
            *path = (struct str){message.p, i};
            return str_trim(rest);
        }
    }
    return message;
}

static void write_fault(struct jw *w, const struct fault *f)
{
    struct str path = str_of(f->path), message = str_of(f->message);
    int64_t line = f->line;
    if (f->path == NULL) {
        message = cut_place(message, &path, &line);
    } else if (strcmp(f->path, "recorder") ==
               0) { // about a table that the file returned: no line of it says so
        path = STR_NULL;
        line = 0;
    }
    jw_kbool(w, "ok", false);
    jw_kstrz(w, "code", fault_name(f->code));
    jw_kstr(w, "message", message);
    if (path.n != 0) {
        jw_kstr(w, "path", path);
    }
    jw_kint(w, "line", line);
    jw_kstrz(w, "traceback", f->traceback);
}

static void write_refusal(struct jw *w, const char *message)
{
    jw_kbool(w, "ok", false);
    jw_kstrz(w, "code", "LOAD_FAILED");
    jw_kstrz(w, "message", message);
    jw_kint(w, "line", 0);
}

static void run(const struct json *request, struct jw *w)
{
    // the time that a load has, and room for the plugin's own tests
    int64_t load_ms = json_int(json_get(request, "load_ms"), VM_LOAD_BUDGET_MS);
    bool tests = json_bool(json_get(request, "test"), false);
    struct vm *vm = vm_open(&(struct vm_opts){.trust = VM_USER});
    struct entry en = {.kind = ENTRY_LOAD,
                       .owner = vm_owner_open(vm, "validate"),
                       .budget_ms = (uint32_t)load_ms + (tests ? TEST_BUDGET_MS : 0)};
    lua_State *L = entry_begin(&en, vm);
    const struct shipped *shipped = host_runtime_find("recorder.lua");
    struct str recorder = {shipped->text, shipped->n};
    struct arena a = {0};
    struct json *value;
    struct err e = {0};
    if (entry_push_chunk(&en, recorder, "=recorder") < 0 ||
        entry_run(&en, push_args(L, request)) != ENTRY_DONE) {
        write_fault(w, en.fault);
    } else if (value_read(&value, &a, L, 1, &e) < 0) {
        write_refusal(w, e.msg);
    } else {
        jw_kbool(w, "ok", true);
        jw_kvalue(w, "value", value);
    }
    arena_fini(&a);
    entry_end(&en);
    vm_close(vm);
}

// ---- in and out -----------------------------------------------------------------------------

int host_read_request(struct buf *in)
{
    char *room;
    ssize_t n = 0;
    while ((room = buf_reserve(in, 64 * 1024)) != NULL &&
           (n = read(STDIN_FILENO, room, 64 * 1024)) > 0) {
        buf_grow(in, (size_t)n);
    }
    return room == NULL || n < 0 ? -1 : 0;
}

static void answer(struct jw *w)
{
    struct buf in = {.max = HOST_REQUEST_MAX};
    struct arena a = {0};
    struct json *request;
    struct err e = {0};
    const struct policy policy = {.memory = MEMORY};
    if (policy_enter(&policy, &e) < 0) {
        err_prefix(&e, "no sandbox, so nothing is run");
        write_refusal(w, e.msg);
    } else if (host_read_request(&in) < 0) {
        write_refusal(w, "the request could not be read");
    } else if (json_parse(&request, &a, buf_str(&in), NULL, &e) < 0) {
        write_refusal(w, e.msg);
    } else {
        run(request, w);
    }
    arena_fini(&a);
    buf_fini(&in);
}

int host_answer_request(void (*answer_it)(struct jw *w))
{
    struct buf out = {.max = SIZE_MAX};
    // what the plugin prints is dropped: stdout becomes /dev/null, and its descriptor is ours
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10),
        null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0) {
        return 2;
    }
    close(null);
    struct jw w = {.out = &out};
    jw_obj(&w);
    answer_it(&w);
    jw_end_obj(&w);
    int rc = path_write_fd(fd, buf_str(&out));
    _exit(rc < 0 ? 1 : 0); // nothing to tidy: the process goes
}

int host_validate_main(void)
{
    return host_answer_request(answer);
}
