#pragma once

#include <sys/stat.h>

#include <lauxlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/vec.h"

// The libraries that Lua code has in the hub and in `afloat host lua`: json, log, timer, fs, config,
// events and hooks. Each is written once. What json and log need is in the state itself; the others use
// a backend: bind/ does the work in the process, host/ asks the hub for it.
//
//     Lua: timer.after(1, fn) ── lib_timer.c: checks, messages ── struct lib_backend ──┬── bind/timer.c
//                                                                                      └── host/clock.c

struct lib_fs_job;

/// A registration of a hook. Texts are borrowed from the Lua stack.
struct lib_hook {
    struct str point, name; // `point` as the code wrote it: "final", "on_final"
    bool chain;             // intercept: what the handler returns counts
    struct str tool;        // STR_NULL: all tools
    int priority;
    uint32_t timeout_ms; // 0: the default
    bool block;          // on_error = "block"
};

// What the libraries use. All run on the state's thread, called by Lua code, and may raise; those of
// fs that get no `L` run on any thread. Functions that return int push their results and return how many;
// `who` ("timer.after") begins their messages.

struct lib_timers {
    /// Call the function at 2 after `ms`, once or again and again: its id.
    int (*add)(lua_State *L, const char *who, uint64_t ms, bool again);
    bool (*cancel)(lua_State *L, uint64_t id);
    /// Suspend the running code, which may wait: checked.
    int (*sleep)(lua_State *L, uint64_t ms);
};

struct lib_events {
    /// Call the function at 2 with (data, name) for events of that name: its id.
    int (*on)(lua_State *L, const char *who, struct str name);
    bool (*off)(lua_State *L, uint64_t id);
    int (*emit)(lua_State *L, const char *who, struct str name, const struct json *data);
};

struct lib_hooks {
    /// Register the function at 3: true.
    int (*add)(lua_State *L, const char *who, const struct lib_hook *h);
    /// Take back the handler with this point, name and `chain`; false when there is none.
    bool (*off)(lua_State *L, const struct lib_hook *h);
};

struct lib_fs {
    const char *top;     // what fs.list() lists; NULL: it needs a path
    const char *outside; // what -EXDEV means; NULL: what it means to the kernel
    /// A copy of `path` as the functions below take it; NULL: code may not name files so.
    char *(*resolve)(const char *path);
    /// Do the job: lib_fs_now(), or lib_fs_keep() and the rest later. A callback is at `callback`
    /// unless that is nil.
    int (*run)(lua_State *L, struct lib_fs_job *j, int callback);
    // Each returns 0 (open: a descriptor) or a negative code.
    int (*open)(void *arg, const char *path, int flags);
    /// Replace the file in one step. `mode` is for a new file, 0: the usual.
    int (*write)(void *arg, const char *path, struct str bytes, mode_t mode);
    int (*append)(void *arg, const char *path, struct str bytes);
    int (*mkdir)(void *arg, const char *path); // with its parents
    int (*remove)(void *arg, const char *path);
    int (*rename)(void *arg, const char *from, const char *to);
};

struct lib_backend {
    /// All settings as one object, secrets blanked. It may be made in `a`; NULL: none.
    const struct json *(*config)(lua_State *L, struct arena *a);
    const char *(*data_dir)(lua_State *L);
    const struct lib_timers *timers;
    const struct lib_events *events;
    const struct lib_hooks *hooks;
    const struct lib_fs *fs;
};

/// Each leaves one value: the library.
int lib_json_open(lua_State *L); // encode decode array null
int lib_fs_open(lua_State *L); // read write append exists is_dir list stat mkdir remove rename copy
/// The functions of the others.
extern const luaL_Reg lib_log[];    // debug info warn error
extern const luaL_Reg lib_config[]; // get all lua_path data_dir
extern const luaL_Reg lib_events[]; // on off emit
extern const luaL_Reg lib_hooks[];  // on off intercept unintercept
extern const luaL_Reg lib_timer[];  // after every cancel sleep

/// print and warn
int lib_log_info(lua_State *L);
int lib_log_warn(lua_State *L);

/// Is the code on `L` a file that loads?
bool lib_is_loading(lua_State *L);

/// Read the options of a hook from the table at `idx` into `h`; nil and none are allowed. Raises.
void lib_hook_options(lua_State *L, const char *who, int idx, struct lib_hook *h);

// ---- jobs of fs -----------------------------------------------------------------------------

struct lib_fs_fn;

/// One call of a function of fs. Belongs to a userdata on the Lua stack until lib_fs_keep().
struct lib_fs_job {
    const struct lib_fs_fn *fn;
    const char *name; // "fs.read"
    bool reads;       // it changes nothing
    const struct lib_fs *fs;
    void *arg;          // vm_arg()
    char *path, *other; // `other`: NULL unless there is one
    struct buf bytes;   // to write, or what was read
    struct stat st;
    bool found;
    vec(char *) names;
    int rc;
    struct lib_fs_job **box; // in the userdata; NULL once kept
};

/// Take the job out of its userdata: the caller ends it with lib_fs_free().
void lib_fs_keep(struct lib_fs_job *j);
void lib_fs_free(struct lib_fs_job *j);
/// Do the work, on any thread.
void lib_fs_work(struct lib_fs_job *j);
/// Push the answer and return the number of values.
int lib_fs_push(lua_State *L, struct lib_fs_job *j);
/// Work and push, reading at most `max` bytes. Not for a job that was kept.
int lib_fs_now(lua_State *L, struct lib_fs_job *j, size_t max);
