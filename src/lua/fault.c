// What went wrong, where: from a coroutine that died or was stopped.
//
// Lua puts the place in front of its messages ("init.lua:7: ..."), with long paths cut. A fault has the
// whole path and the line apart: the place in the message tells which of the open calls is meant, and
// that call's chunk name is the path. The __tostring of error values of other types is not called:
// there is no budget here.
//
// Bounded: FRAMES calls are looked at, texts are cut. (Lua's own luaL_traceback searches all loaded
// modules for the names of functions, as long as their tables are.)

#include "base/buf.h"
#include "base/utf8.h"
#include "lua/vm_int.h"

enum { FRAMES = 20, TRACE_MAX = 16 * 1024 };

/// The file of a frame, or NULL: chunks from files are named "@path".
static const char *path_of(const lua_Debug *ar)
{
    return ar->source[0] == '@' ? ar->source + 1 : NULL;
}

/// Cut "place:line: " off the start of `*message` when there is one.
static bool cut_place(struct str *message, struct str *place, int *line)
{
    for (size_t i = 0; i + 1 < message->n; i++) {
        size_t d = i + 1;
        int64_t value = 0;
        while (message->p[i] == ':' && d < message->n && d - i < 10 && message->p[d] >= '0' &&
               message->p[d] <= '9') {
            value = value * 10 + (message->p[d++] - '0');
        }
        if (d > i + 1 && d + 1 < message->n && message->p[d] == ':' && message->p[d + 1] == ' ') {
            *place = (struct str){message->p, i};
            *line = (int)value;
            *message = str_from(*message, d + 2);
            return true;
        }
        if (message->p[i] == '\n') {
            break;
        }
    }
    return false;
}

/// True when `place`, as Lua shortens it, means `path`.
static bool means(struct str place, const char *path)
{
    if (str_starts(place, "...")) {
        struct str whole = str_of(path), tail = str_from(place, 3);
        return whole.n >= tail.n && memcmp(whole.p + whole.n - tail.n, tail.p, tail.n) == 0;
    }
    return str_eqz(place, path);
}

static char *text_of(struct str s)
{
    struct buf b = {.max = SIZE_MAX};
    s.n = utf8_cut(s.p, s.n, VM__TEXT_MAX);
    while (s.n > 0) {
        size_t good = utf8_valid_prefix(s);
        buf_add(&b, s.p, good);
        if (good < s.n) {
            buf_addz(&b, "\xEF\xBF\xBD");
            good++;
        }
        s = str_from(s, good);
    }
    return b.n > 0 ? buf_take(&b, NULL) : xstrdup("");
}

static void add_traceback(struct buf *out, lua_State *L, int level)
{
    lua_Debug ar;
    for (int i = 0; i < FRAMES && lua_getstack(L, level + i, &ar); i++) {
        lua_getinfo(L, "Sln", &ar);
        const char *path = path_of(&ar);
        buf_addz(out, path != NULL ? path : ar.short_src);
        if (ar.currentline > 0) {
            buf_addf(out, ":%d", ar.currentline);
        }
        if (ar.name != NULL) {
            buf_addf(out, ": in %s '%s'\n", ar.namewhat, ar.name);
        } else if (strcmp(ar.what, "main") == 0) {
            buf_addz(out, ": in main chunk\n");
        } else if (strcmp(ar.what, "C") == 0) {
            buf_addz(out, ": in a function\n");
        } else {
            buf_addf(out, ": in function <line %d>\n", ar.linedefined);
        }
    }
    if (lua_getstack(L, level + FRAMES, &ar)) {
        buf_addz(out, "...\n");
    }
    if (out->n > 0 && out->p[out->n - 1] == '\n') {
        buf_cut(out, out->n - 1);
    }
}

/// An error that leaves a coroutine, or is thrown again, has several places of the same file in front: the last one is
/// where it began.
static void take_places(struct fault *f, const char *path, struct str *message)
{
    struct str place, rest = *message;
    int line;
    while (cut_place(&rest, &place, &line) && means(place, path)) {
        f->line = line;
        *message = rest;
    }
}

/// The call that the message names; else the innermost one in Lua.
static void locate(struct fault *f, lua_State *L, struct str *message)
{
    struct str place = STR_NULL, rest = *message;
    int line;
    bool placed = cut_place(&rest, &place, &line);
    lua_Debug ar;
    for (int i = 0; i < FRAMES && lua_getstack(L, i, &ar); i++) {
        lua_getinfo(L, "Sl", &ar);
        const char *path = path_of(&ar);
        if (placed && path != NULL && means(place, path)) {
            free(f->path);
            f->path = xstrdup(path);
            take_places(f, path, message);
            return;
        }
        if (f->path == NULL && path != NULL && ar.currentline > 0) {
            f->path = xstrdup(path);
            f->line = ar.currentline;
        }
    }
}

struct fault *fault__of_stack(enum fault_code code, lua_State *L, struct str message)
{
    struct fault *f = xcalloc(1, sizeof *f);
    f->code = code;
    message.n = MIN(message.n, VM__TEXT_MAX);
    locate(f, L, &message);
    f->message = text_of(message);
    struct buf b = {.max = TRACE_MAX};
    add_traceback(&b, L, 0);
    f->traceback = text_of(buf_str(&b));
    buf_fini(&b);
    return f;
}

struct fault *fault__of_text(enum fault_code code, const char *path, struct str message)
{
    struct fault *f = xcalloc(1, sizeof *f);
    struct str place, rest;
    f->code = code;
    message.n = MIN(message.n, VM__TEXT_MAX);
    rest = message;
    if (path != NULL && cut_place(&rest, &place, &f->line) && means(place, path)) {
        message = rest;
    }
    f->path = path != NULL ? xstrdup(path) : NULL;
    f->message = text_of(message);
    f->traceback = xstrdup("");
    return f;
}

void fault__push_traceback(lua_State *L, lua_State *of, int level)
{
    struct buf b = {.max = TRACE_MAX};
    add_traceback(&b, of, level);
    vm_of(L)->lenient++; // an error here would lose the buffer
    lua_pushlstring(L, buf_z(&b), b.n);
    vm_of(L)->lenient--;
    buf_fini(&b);
}

void fault_free(struct fault *f)
{
    if (f == NULL) {
        return;
    }
    free(f->message);
    free(f->path);
    free(f->traceback);
    free(f);
}

const char *fault_name(enum fault_code code)
{
    static const char *const names[] = {
#define X(name) [FAULT_##name] = #name,
        FAULT_MAP(X)
#undef X
    };
    return names[code];
}
