// The status line and the prompt as live Lua.
//
//     files ──changed──> a new state of Lua ──> the files in order ──> both functions run once, as a proof
//                                                                        ├─ fine: it takes the place of the old
//                                                                        └─ fault: told once, the old one stays
//
// A new build is a new state, so nothing of the old one can stack. What fails later, with other values, makes the
// face fall back to the shipped file until something is saved. The files run with the rights of agent-written
// code (VM_SANDBOX), and under its limits: they are asked for a text many times a second.

#include "chat/face.h"

#include <assert.h>
#include <math.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/visible.h"
#include "lua/entry.h"
#include "lua/refs.h"
#include "lua/value.h"
#include "term/text.h"

enum { FILES = 2, CALL_MS = 50, MEMORY = 16 << 20, PROMPT_COLS = 40 };

/// What tells one version of a file from another; all 0: there is none.
struct stamp {
    struct timespec at;
    off_t size;
    ino_t ino;
};

struct build {
    struct vm *vm;
    struct vm_owner *own;
    vm_ref frame; // the table of both functions
};

struct face {
    const char *home, *user_home;
    char *paths[FILES]; // in the place of the shipped one, and after it
    struct stamp stamps[FILES];
    struct build now;
    struct buf status, prompt;
};

/// Keeps both functions; what a file returns is put in front of what was there.
static const char frame_text[] =
    "local face = { status = function() return '' end, prompt = function() return '> ' end }\n"
    "function face.add(value)\n"
    "  if type(value) ~= 'table' then error('the file must return a table of functions', 0) end\n"
    "  for _, name in ipairs{'status', 'prompt'} do\n"
    "    local fn, before = value[name], face[name]\n"
    "    if fn ~= nil and type(fn) ~= 'function' then error(name .. ' must be a function', 0) end\n"
    "    if fn then face[name] = function(state) return fn(state, before) end end\n"
    "  end\n"
    "end\n"
    "return face\n";

// ---- one build -----------------------------------------------------------------------------

static void build_close(struct build *b)
{
    vm_close(b->vm);
    *b = (struct build){0};
}

static void tell(const struct face *f, struct buf *out, const struct fault *fault, const char *path)
{
    bool placed = fault->path != NULL && strcmp(fault->path, "face") != 0;
    const char *at = placed ? fault->path : path, *below = path_below(f->home, at);
    buf_addz(out, below != NULL ? below : at);
    if (fault->line > 0 && placed) {
        buf_addf(out, ":%d", fault->line);
    }
    buf_addf(out, ": %s", fault->message);
}

/// Begin an entry with a function of the frame on its stack.
static lua_State *begin(struct build *b, struct entry *en, const char *name)
{
    assert(b->vm != NULL && b->frame != 0);
    lua_State *L = entry_begin(en, b->vm);
    refs_push_field(L, b->frame, name);
    return L;
}

/// Run a file; `*value` is what it returned.
static int run_file(const struct face *f, struct build *b, const char *path, struct str text,
                    vm_ref *value, struct buf *fault)
{
    struct entry en = {.kind = ENTRY_LOAD, .owner = b->own};
    char *chunk = xasprintf("@%s", path);
    entry_begin(&en, b->vm);
    int rc = entry_push_chunk(&en, text, chunk) == 0 && entry_run(&en, 0) == ENTRY_DONE ? 0 : -1;
    if (rc < 0) {
        tell(f, fault, en.fault, path);
    } else if (en.n_results > 0) {
        lua_pushvalue(en.L, 1);
        *value = refs_take(en.L, b->own);
    }
    entry_end(&en);
    free(chunk);
    return rc;
}

static int add_file(const struct face *f, struct build *b, const char *path, struct str text,
                    struct buf *fault)
{
    vm_ref value = 0;
    if (run_file(f, b, path, text, &value, fault) < 0) {
        return -1;
    }
    struct entry en = {.kind = ENTRY_LOAD, .owner = b->own};
    lua_State *L = begin(b, &en, "add");
    if (value != 0) {
        refs_push(L, value);
    } else {
        lua_pushnil(L);
    }
    int rc = entry_run(&en, 1) == ENTRY_DONE ? 0 : -1;
    if (rc < 0) {
        tell(f, fault, en.fault, path);
    }
    entry_end(&en);
    return rc;
}

// ---- what the functions get ----------------------------------------------------------------

/// Nothing when it is not known.
static void set_count(lua_State *L, const char *name, int64_t n)
{
    if (n >= 0) {
        value_set_int(L, name, n);
    }
}

static void push_state(lua_State *L, const struct face *f, const struct gauge *g, size_t cols)
{
    char *dir = path_fold_home(g->dir, f->user_home);
    const char *const texts[][2] = {{"permission", g->permission},
                                    {"model", g->model},
                                    {"dir", dir},
                                    {"path", g->dir},
                                    {"branch", g->branch}};
    lua_newtable(L);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        value_set_str(L, texts[i][0], texts[i][1]);
    }
    free(dir);
    if (g->env[0] != '\0') {
        value_set_str(L, "env", g->env);
    }
    value_set_bool(L, "busy", g->work != GAUGE_IDLE);
    value_set_int(L, "cols", (lua_Integer)cols);
    set_count(L, "input", g->input);
    set_count(L, "output", g->output);
    if (g->cost >= 0 && isfinite(g->cost)) {
        lua_pushnumber(L, g->cost);
        value_set(L, "cost");
    }
    if (g->context >= 0) {
        lua_newtable(L);
        value_set_int(L, "used", g->context);
        set_count(L, "window", g->window > 0 ? g->window : -1);
        value_set(L, "context");
    }
}

/// Ask one of the functions for its text.
static int ask(const struct face *f, struct build *b, const char *name, const struct gauge *g,
               size_t cols, struct buf *out, struct buf *fault)
{
    struct entry en = {.budget_ms = CALL_MS, .owner = b->own};
    lua_State *L = begin(b, &en, name);
    push_state(L, f, g, cols);
    int rc = entry_run(&en, 1) == ENTRY_DONE ? 0 : -1;
    buf_clear(out);
    if (rc < 0) {
        tell(f, fault, en.fault, "ui/status.lua");
    } else if (en.n_results > 0 && lua_isstring(en.L, 1)) {
        struct str text;
        text.p = lua_tolstring(en.L, 1, &text.n);
        visible_add(out, text, false);
    } else if (en.n_results > 0 && !lua_isnil(en.L, 1)) {
        buf_addf(fault, "ui/status.lua: %s must return a text, not a %s", name,
                 lua_typename(en.L, lua_type(en.L, 1)));
        rc = -1;
    }
    entry_end(&en);
    return rc;
}

static int ask_both(struct face *f, struct build *b, const struct gauge *g, size_t cols,
                    struct buf *fault)
{
    return ask(f, b, "status", g, cols, &f->status, fault) < 0 ||
                   ask(f, b, "prompt", g, cols, &f->prompt, fault) < 0
               ? -1
               : 0;
}

// ---- building ------------------------------------------------------------------------------

static struct str shipped_text(void)
{
    const struct shipped *s = chat_face;
    while (s->rel != NULL && strcmp(s->rel, "status.lua") != 0) {
        s++;
    }
    assert(s->rel != NULL);
    return (struct str){s->text, s->n};
}

/// Make a build of the files, or of the shipped one alone.
static int build_open(struct face *f, struct build *b, bool own, struct buf *fault)
{
    struct buf text = {.max = VM_CHUNK_MAX};
    *b =
        (struct build){.vm = vm_open(&(struct vm_opts){.trust = VM_SANDBOX, .memory_max = MEMORY})};
    b->own = vm_owner_open(b->vm, "face");
    int rc = run_file(f, b, "face", str_of(frame_text), &b->frame, fault);
    bool replaced = rc == 0 && own && path_read(f->paths[0], &text, NULL) == 0;
    if (rc == 0) {
        rc = add_file(f, b, replaced ? f->paths[0] : "ui/status.lua",
                      replaced ? buf_str(&text) : shipped_text(), fault);
    }
    buf_clear(&text);
    if (rc == 0 && own && path_read(f->paths[1], &text, NULL) == 0) {
        rc = add_file(f, b, f->paths[1], buf_str(&text), fault);
    }
    buf_fini(&text);
    return rc;
}

static struct stamp stamp_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (struct stamp){st.st_mtim, st.st_size, st.st_ino}
                                : (struct stamp){0};
}

bool face_is_stale(const struct face *f)
{
    bool changed = false;
    for (size_t i = 0; i < FILES; i++) {
        struct stamp now = stamp_of(f->paths[i]);
        const struct stamp *was = &f->stamps[i];
        changed = changed || now.ino != was->ino || now.size != was->size ||
                  now.at.tv_sec != was->at.tv_sec || now.at.tv_nsec != was->at.tv_nsec;
    }
    return changed;
}

static void rebuild(struct face *f, bool own, const struct gauge *g, size_t cols, struct buf *fault)
{
    struct build next;
    if (build_open(f, &next, own, fault) == 0 && ask_both(f, &next, g, cols, fault) == 0) {
        build_close(&f->now);
        f->now = next;
    } else {
        build_close(&next);
    }
}

bool face_update(struct face *f, const struct gauge *g, size_t cols, struct buf *fault)
{
    size_t before = fault->n;
    if (f->now.vm == NULL) {
        rebuild(f, false, g, cols, fault);
        assert(f->now.vm != NULL && fault->n == before); // what is shipped works
    }
    if (face_is_stale(f)) {
        for (size_t i = 0; i < FILES; i++) {
            f->stamps[i] = stamp_of(f->paths[i]);
        }
        rebuild(f, true, g, cols, fault);
    }
    if (ask_both(f, &f->now, g, cols, fault) < 0) {
        struct buf ignored = {.max = SIZE_MAX};
        rebuild(f, false, g, cols, &ignored);
        (void)!ask_both(f, &f->now, g, cols, &ignored);
        buf_fini(&ignored);
    }
    return fault->n != before;
}

struct face *face_new(const char *home, const char *user_home)
{
    struct face *f = xcalloc(1, sizeof *f);
    f->home = home;
    f->user_home = user_home;
    f->paths[0] = path_join(home, "lua/ui/status.lua");
    f->paths[1] = path_join(home, "lua/user/ui/status.lua");
    buf_init(&f->status, SIZE_MAX);
    buf_init(&f->prompt, SIZE_MAX);
    buf_addz(&f->prompt, "> ");
    return f;
}

void face_free(struct face *f)
{
    if (f != NULL) {
        build_close(&f->now);
        free(f->paths[0]);
        free(f->paths[1]);
        buf_fini(&f->status);
        buf_fini(&f->prompt);
        free(f);
    }
}

const char *face_prompt(const struct face *f)
{
    return text_width(buf_str(&f->prompt)) <= PROMPT_COLS ? buf_z(&f->prompt) : "> ";
}

void face_status(const struct face *f, struct buf *out, size_t cols, enum color_depth color)
{
    if (f->status.n != 0) {
        buf_addz(out, color_on(color, COLOR_DIM));
        text_add_cut(out, buf_str(&f->status), cols);
        buf_addf(out, "%s\n", color_off(color));
    }
}
