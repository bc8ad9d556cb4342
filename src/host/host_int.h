#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "base/json.h"
#include "base/vec.h"
#include "lua/entry.h"
#include "lua/refs.h"
#include "lua/value.h"
#include "lua/vm.h"

// What the files of host/ share. One process runs one file: there is one `struct far`, and every
// function that Lua calls finds it with far__of().

enum {
    FAR__HANDLERS = 256,     // hooks, tools and subscriptions of a file
    FAR__TIMERS = 256,       // at a time
    FAR__TIMER_MIN_MS = 10,  // of every()
    FAR__OUT = 64 * 1024,    // bytes kept before they are written
    FAR__READ_MAX = 8 << 20, // bytes of a file that fs.read takes
    FAR__DISK = 64 << 20,    // bytes that a process may write to disk in its life
    FAR__NAME = 4096,        // what a new name counts for
    FAR__LIST_MAX = 10000,   // names of a directory
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
    int64_t id;
    uint64_t every_ms; // 0: once
    uint64_t due;      // monotonic ms; until the start: how long from there
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
    bool loading; // the file runs for the first time: it may register
    bool loaded;  // a load message came
    bool started; // plugin_start came: timers run
    bool leaving; // shutdown came: nothing begins by itself any more
    bool over;    // the socket is closed
    struct buf in, out;
    struct arena config_arena;
    struct json *config; // of load, NULL before
    char *lua_path, *data_dir;
    vec(struct far__handler) handlers;
    vec(struct far__timer) timers;
    vec(struct far__wait *) waits;
    vec(struct far__job *) jobs;
    int64_t last_timer, last_call;
    size_t disk; // bytes written to disk so far
};

struct far *far__of(lua_State *L);

// ---- host.c --------------------------------------------------------------------------------

/// Set up `f` for the file at `path` with its directory open as `root` and `fd` as the socket.
void far__init(struct far *f, const char *path, int root, int fd);
void far__fini(struct far *f); // closes neither descriptor

// ---- talk.c --------------------------------------------------------------------------------

/// Act on one line from the hub.
void far__line(struct far *f, struct str line);
/// Begin a message of that type; members follow, then far__send().
void far__begin(struct far *f, struct jw *w, const char *type, int64_t id);
void far__send(struct far *f, struct jw *w);
void far__flush(struct far *f);
/// Say that `id` (0: nobody's call) failed.
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
/// Suspend until the hub answers call `id`: `return far__wait_call(L, id)`.
int far__wait_call(lua_State *L, int64_t id);
/// The answer to a call came: `value`, or NULL and `message`.
void far__answered(struct far *f, int64_t id, const struct json *value, struct str message);
void far__clock_fini(struct far *f);
int far__open_timer(lua_State *L);

// ---- the other libraries -------------------------------------------------------------------

int far__open_hooks(lua_State *L);  // hooks
int far__open_events(lua_State *L); // events
int far__open_tool(lua_State *L);   // tool
int far__open_config(lua_State *L); // config
int far__open_hub(lua_State *L);    // hub
int far__open_fs(lua_State *L);     // fs

/// `return far__nil(L, "cannot ...")`: nil and a message.
int far__nil(lua_State *L, const char *fmt, ...) PRINTF_LIKE(2, 3);
