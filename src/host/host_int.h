#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "base/json.h"
#include "base/vec.h"
#include "lua/args.h"
#include "lua/entry.h"
#include "lua/lib.h"
#include "lua/refs.h"
#include "lua/value.h"
#include "lua/vm.h"

// What the files of host/ share. One process runs one file: there is one `struct far`, and every
// function that Lua calls finds it with far__of().

enum {
    FAR__HANDLERS = 256,    // hooks, tools and subscriptions of a file
    FAR__TIMERS = 256,      // at a time
    FAR__TIMER_MIN_MS = 10, // of every()
    FAR__OUT = 64 * 1024,   // bytes kept before they are written
    FAR__DISK = 64 << 20,   // bytes that a process may write to disk in its life
    FAR__NAME = 4096,       // what a new name counts for
};

enum far__kind { FAR__HOOK, FAR__TOOL, FAR__EVENT };

struct far__handler {
    enum far__kind kind;
    char *name;  // of the point, tool or event
    char *title; // of a hook: by which off() finds it; else NULL
    vm_ref fn;
    bool answers; // what it returns counts
    bool off;
};

struct far__timer {
    uint64_t id;
    uint64_t every_ms; // 0: once
    uint64_t due;      // monotonic ms; until the start: how long from there
    bool inside;       // its handler is under way
    vm_ref fn;
};

/// What a suspended entry waits for: a time, or the answer to a call.
struct far__wait {
    struct entry_wait wait;
    struct far *far;
    uint64_t due;    // of a sleep; UINT64_MAX for a call
    int64_t call_id; // of a call; 0 for a sleep
};

struct far__job;

struct far {
    int fd;   // the socket
    int root; // the directory that stays in reach
    char *path, *name;
    struct vm *vm;
    struct vm_owner *owner;
    bool loaded;  // a load message came
    bool started; // plugin_start came: timers run
    bool leaving; // shutdown came: nothing begins by itself any more
    bool over;    // the socket is closed
    struct buf in, out;
    struct arena config_arena;
    struct json *config; // of load, NULL before
    char *data_dir;
    vec(struct far__handler) handlers;
    vec(struct far__timer) timers;
    vec(struct far__wait *) waits;
    vec(struct far__job *) jobs;
    uint64_t last_timer;
    int64_t last_call;
    size_t disk; // bytes written to disk so far
};

struct far *far__of(lua_State *L);

// ---- host.c --------------------------------------------------------------------------------

/// Set up `f` for the file at `path` with its directory open as `root` (-1: it has no files) and `fd` as
/// the socket (-1: what it says stays in its buffer).
void far__init(struct far *f, const char *path, int root, int fd);
void far__fini(struct far *f); // closes neither descriptor

// ---- talk.c --------------------------------------------------------------------------------

/// Act on one line from the hub.
void far__line(struct far *f, struct str line);
/// Begin a message of that type; members follow, then far__send().
void far__begin(struct far *f, struct jw *w, const char *type, int64_t id);
void far__send(struct far *f, struct jw *w);
void far__flush(struct far *f);
/// Say that `id` failed; 0: code that no call of the hub runs.
void far__error(struct far *f, int64_t id, const struct fault *fault);
void far__error_text(struct far *f, int64_t id, const char *message);

// ---- job.c ---------------------------------------------------------------------------------

/// Compile and run the file; ends with loaded or failed.
void far__load(struct far *f, struct str source);
/// Run handler `fn` with ctx (NULL: none) and `args` (an array; NULL: none) and answer `id`, 0 for
/// nobody. `tool`: a first value of nil makes the second one an error.
struct far__run {
    vm_ref fn;
    int64_t id;
    uint64_t timer; // that it is a call of; 0: none
    const struct json *ctx, *args;
    uint32_t budget_ms; // 0: the usual
    bool answers, tool;
};
void far__run(struct far *f, const struct far__run *r);
/// Stop what runs for `id`; it is answered with an error.
void far__cancel(struct far *f, int64_t id);
void far__jobs_fini(struct far *f);

// ---- clock.c -------------------------------------------------------------------------------

/// Milliseconds until something is due, -1 for never.
int far__next_ms(const struct far *f);
void far__fire_due(struct far *f);
/// The version serves: from here its timers run.
void far__start_timers(struct far *f);
/// The handler of timer `id` has ended.
void far__timer_ended(struct far *f, uint64_t id);
/// Call the function below the `n` values on top with them, in a later turn. Pushes true and returns 1.
int far__call_later(lua_State *L, const char *who, int n);
/// Suspend until the hub answers call `id`: `return far__wait_call(L, id)`.
int far__wait_call(lua_State *L, int64_t id);
/// The answer to a call came: `value`, or NULL and `message`.
void far__answered(struct far *f, int64_t id, const struct json *value, struct str message);
void far__clock_fini(struct far *f);

// ---- the backend of the libraries (lua/lib.h): clock.c, register.c, fs.c --------------------------

extern const struct lib_timers far__timers;
extern const struct lib_events far__events;
extern const struct lib_hooks far__hooks;
extern const struct lib_fs far__fs;

// ---- register.c: what only an improvement has ----------------------------------------------

int far__open_tool(lua_State *L); // the function `tool`
extern const luaL_Reg far__hub[]; // hub: get_worktrees
