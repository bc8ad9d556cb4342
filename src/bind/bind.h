#pragma once

#include <lua.h>

#include "base/log.h"
#include "config/hub_parts.h"
#include "gen/engine.h"
#include "lua/refs.h"
#include "lua/vm.h"

// The Lua faces of the hub's parts (fs, exec, http, timer, events, hooks, watch, store, config, secrets, hub, `on`), and
// the owners of what Lua code registers with them.
//
//     struct bind *b = bind_open(&opts);
//     struct vm *vm = bind_vm_open(b);               // a state with all faces
//
//     // a source of generations, in its stage(), for each version of each module:
//     struct gen_unit *u = gen_stage_unit(s, &spec);
//     struct bind_owner *o = bind_owner_open(b, vm, u);
//     struct entry en = {.kind = ENTRY_LOAD, .owner = o->owner}; ... what it registers is u's
//
//     bind_owner_close(o);                           // in its release(): u is gone
//
// The owner of the running entry owns what a face makes: a timer that a callback of module A makes
// belongs to A, even if a function of another module made it. Everything here runs on the loop thread.

struct api;
struct bind;
struct http_client;
struct op_call;
struct plugin_runner;
struct plugins;
struct watchdog_stall;
struct watcher;
struct bind__usage;
struct bind_call;
struct bind_op;
struct bind_reg;

// ---- the faces ------------------------------------------------------------------------------

/// What the faces reach. Everything is borrowed until bind_close().
struct bind_opts {
    const struct hub_parts *hub;
    struct watcher *watcher;
    struct http_client *http;
    struct gen_engine *engine;
    /// The user's value for a key such as "flags.PLUGIN.NAME", borrowed for the call; NULL when the user set none.
    /// May be NULL.
    const struct json *(*choice)(void *arg, struct str key);
    void *choice_arg;
    /// The file in which a hub that was killed left the plugin that it was stuck in (lua/watchdog.h). That plugin is
    /// not run until its text changes; then the file is deleted. NULL: none.
    const char *stalled_path;
};

/// Open the faces; the caller ends them with bind_close(). Never NULL.
struct bind *bind_open(const struct bind_opts *o);

/// The unit that the hub was stuck in when it was killed, and which is therefore not run; NULL: none.
const struct watchdog_stall *bind_stalled(const struct bind *b);

/// Set the plugins that hub.loader works on; NULL: plugins are not loaded in this hub. Borrowed until the next call.
void bind_set_plugins(struct bind *b, struct plugins *ps);

/// Set what runs the operations of hub.<noun>.<verb>: op_run() and the api that it works on, borrowed until the next
/// call. While it is NULL (the hub is starting or stopping) operations answer STOPPING.
typedef void bind_run_op(struct api *api, struct op_call *c);
void bind_set_ops(struct bind *b, bind_run_op *run, struct api *api);

/// A worktree was created or deleted: update hub.get_worktrees() and call the handlers of worktree_created or
/// worktree_deleted.
void bind_worktree_changed(struct bind *b, bool created, const char *path, const char *branch,
                           const char *repository);
/// A worktree exists since before the hub started: add it to hub.get_worktrees() without calling handlers.
void bind_worktree_known(struct bind *b, const char *path, const char *branch,
                         const char *repository);
/// Write the worktrees that exist as `[{path, branch, repository}]`.
void bind_worktrees_write(const struct bind *b, struct jw *w);

/// The value as the interceptors of an event left it; or NULL, and why one of them refused it.
typedef void bind_answer(void *arg, const struct json *value, const char *refused);
/// Let the interceptors of the free event `event` change `value`, as hooks.call() does; `answer` comes once, now
/// or later. `value` and `in`, where their answers are kept, are borrowed until then.
void bind_ask(struct bind *b, const char *event, const struct json *value, struct arena *in,
              bind_answer *answer, void *arg);

/// The hub is stopping: cancel every handler and request under way, and start no more of them except the units' own
/// shutdown handlers. Call it before gen_close(), which waits for what is under way.
void bind_stop(struct bind *b);

/// Close the faces, after all owners and states. The memory is freed when the threads are done. NULL is allowed.
void bind_close(struct bind *b);

/// Make a state of user trust with every face in it; its vm_arg() is `b`. The caller ends it
/// with vm_close(), after bind_owner_close() of all its owners.
struct vm *bind_vm_open(struct bind *b);
struct bind *bind_of(lua_State *L);

/// The runner of Lua plugins in the hub; lives as long as `b`. Every version that it loaded must be freed before
/// bind_close().
const struct plugin_runner *bind_runner(struct bind *b);

// ---- owners ---------------------------------------------------------------------------------

/// One version of one module or plugin: its unit in the generation and its owner in the Lua state. Its calls, requests
/// and registrations end with it.
struct bind_owner {
    struct bind *bind;
    struct vm *vm;
    struct vm_owner *owner; // for struct entry
    struct gen_unit *unit;  // borrowed
    // private to bind/
    bool live;               // its unit is part of the current generation
    struct bind_call *calls; // Lua code under way
    struct bind_op *ops;     // requests whose answer goes to a callback
    size_t n_calls, n_ops;
    struct bind__usage *usage;      // see quota.c
    struct bind_reg *regs;          // registrations that are no items of the unit
    struct plugin__version *plugin; // NULL: one of the hub's own modules
};

/// Make the owner of a unit that is being staged. It adds one item of its own to the unit, which tells it when the unit
/// is committed and when it leaves.
struct bind_owner *bind_owner_open(struct bind *b, struct vm *vm, struct gen_unit *unit);
/// Close it, from the source's release(): no code of the unit can run any more. NULL is allowed.
void bind_owner_close(struct bind_owner *o);
/// The owner of the code that runs on `L`; NULL: none.
struct bind_owner *bind_owner_running(lua_State *L);
/// The bind_owner that belongs to this owner in its Lua state; NULL: none, or `o` is NULL.
struct bind_owner *bind_owner_find(struct bind *b, struct vm_owner *o);

/// How a call of Lua code that bind/ began has ended.
struct bind_result {
    enum bind_end {
        BIND_DONE,
        BIND_FAILED,
        BIND_TIMEOUT,
        BIND_CANCELLED, // its unit or the hub went
    } end;
    lua_State *L; // has `n` results if it is done
    int n;
    const struct gen_diag *fault; // why it failed or ran out of time; otherwise NULL
};
typedef void bind_call_done(void *arg, const struct bind_result *r);

/// Call `fn` for `o` from the loop, where it may wait, for `timeout_ms` in all (0: [limits] tool_ms).
/// NULL: `fn` is stale, and nothing follows. Otherwise push the arguments on bind_call_stack(), then
/// bind_call_run(). `done` (may be NULL) is called once, perhaps inside bind_call_run(); faults
/// are logged and noted with the unit before.
struct bind_call *bind_call_begin(struct bind_owner *o, vm_ref fn);
lua_State *bind_call_stack(struct bind_call *c);
void bind_call_run(struct bind_call *c, int nargs, uint32_t timeout_ms, bind_call_done *done,
                   void *arg);
/// Cancel a call: `done` is not called.
void bind_call_cancel(struct bind_call *c);

enum bind_life { BIND_START, BIND_SHUTDOWN };
/// Run what the unit registered with on("plugin_start") or on("plugin_shutdown"), within [limits]
/// start_ms each; then end `call`, perhaps inside this call: with `own`, a fault from before that is moved (NULL, or
/// without a message: none), else with the first fault of a handler as START_FAILED, SHUTDOWN_FAILED or
/// SHUTDOWN_TIMEOUT. With `note` those are noted with the unit instead.
void bind_owner_tell(struct bind_owner *o, enum bind_life which, enum gen_reason why,
                     const struct gen_diag *own, bool note, struct gen_life_call *call);

// ---- hooks from C ---------------------------------------------------------------------------

/// Notify the observers of a free event with one argument, a JSON value (NULL: none), which is borrowed for the call.
void bind_notify(struct bind *b, const char *event, const struct json *value);

/// Post an event that is not on the hub's stream to its subscribers; `data` is a JSON text.
void bind_emit(struct bind *b, const char *name, struct str data);

/// Call `fn` for every event that Lua code of the hub emits and that is not on the stream; `name` and `data`, a JSON
/// text, are borrowed. There is one listener; NULL removes it.
typedef void bind_emit_fn(void *arg, const char *name, struct str data);
void bind_on_emit(struct bind *b, bind_emit_fn *fn, void *arg);

// ---- log ------------------------------------------------------------------------------------

/// Keep a line of a unit that runs elsewhere, cut to 2 KiB; the hub's own log does not get it.
void bind_log_add(struct bind *b, struct str unit, enum log_level level, struct str text);

/// Write the last lines that a unit logged, oldest first, as {ts, level, text} into an open array.
/// They outlive a reload of the unit.
void bind_log_write(const struct bind *b, struct str unit, struct jw *w);
