#pragma once

// What the files of bind/ share.

#include <lauxlib.h>
#include <lualib.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "bind/bind.h"
#include "config/config.h"
#include "hook/run.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "lua/args.h"
#include "lua/entry.h"
#include "lua/lib.h"
#include "lua/value.h"
#include "lua/watchdog.h"
#include "watch/watch.h"

/// [limits] of the settings.
struct bind__limits {
    uint32_t lua_ms, load_ms, hook_ms, start_ms, tool_ms, memory_mb, host_mb;
};

struct state;

struct bind__worktree {
    char *path, *branch, *repository;
};

struct plugin_code;

struct bind {
    struct bind_opts o;
    struct lane *files;
    bool stopped;
    struct map owners; // struct bind_owner by the bytes of its vm_owner's address
    struct map regs;   // struct bind_reg by the bytes of its id
    uint64_t next_id;
    uint64_t writes;                // how often Lua code wrote files, or could have
    struct bind__sub *subs;         // all subscriptions of events.on; see events.c
    struct bind__dispatch *waiting; // dispatches that wait for a handler; see hooks.c
    struct map logs;                // struct bind__ring by the unit's name
    struct bind__limits limits;
    struct hooks__inside *spare;     // handlers that are not inside; see hooks_run.c
    struct map contexts;             // struct agent_ctx by the bytes of its number
    struct plugin__plugins *plugins; // see plugin.c
    struct plugins *all_plugins;     // NULL: this hub loads no plugins
    struct modules *modules;         // NULL: this hub has none
    bind_run_op *run_op;             // runs operations on `api`; NULL: not now
    struct api *api;
    vec(struct bind__worktree) made; // the worktrees that exist; see worktree.c
    struct watchdog_stall stalled;   // unit "": none
    bind_emit_fn *emitted;           // of bind_on_emit(); may be NULL
    void *emitted_arg;
};

/// A number as the key of a map: `b->regs`, `b->contexts`.
static inline struct str bind__id_key(const uint64_t *id)
{
    return (struct str){(const char *)id, sizeof *id};
}

/// The owner of the code that runs; raises when it has none.
struct bind_owner *bind__owner(lua_State *L);

/// Emit an event for code of this hub: on the stream if its name begins with `user.`, else to its subscribers. A negative
/// code when code may not emit that name.
int bind__emit(struct bind *b, const char *name, const struct json *data, struct err *e) MUST_CHECK;
/// The content of the resource at `uri` changed: notify MCP clients that subscribed to it.
void bind__mcp_updated(struct bind *b, struct str uri);
/// Append the name of the document that holds the durable values of `space`.
void bind__store_doc(struct buf *out, const char *space);
/// Why the plugin may not read this secret: its manifest does not say so. NULL: it may. The caller frees it.
char *bind__refuse_secret(const struct plugin_code *code, const char *name);
/// Called once, on the loop thread: the secret, which is erased afterwards, or NULL and why there is none.
typedef void bind__secret_cb(void *arg, const char *value, const struct err *e);
/// Read a secret on a thread; the log never shows it from then on.
void bind__read_secret(struct bind *b, const char *name, bind__secret_cb *cb, void *arg);

enum { BIND__STALL_TEXT = 160 };
/// Was the previous hub killed while it was stuck in exactly this content of `unit`? Then true, and `text` says so. If it
/// was stuck in another content of the unit, and this one is on disk now, the stall is forgotten.
bool bind__check_stall(struct bind *b, const char *unit, const char *hash, bool on_disk,
                       char text[BIND__STALL_TEXT]);

// ---- call.c: requests -------------------------------------------------------------------------

enum { BIND_OPS_MAX = 1024 }; // calls and requests under way, of one owner

/// A request under way, whose answer goes to a callback or to the code that waits for it. A face makes it a member of
/// what it needs for the request.
struct bind_op {
    struct bind_owner *o;
    struct entry_wait wait;
    vm_ref fn; // 0: the code waits
    /// The answer is not wanted any more (`over` is set): stop the work, and free the request as soon as the work
    /// cannot touch it. Answer nothing.
    void (*cancel)(struct bind_op *op);
    bool over;              // it was answered, or its answer is not wanted any more
    struct bind_call *call; // while it is being answered
    struct bind_op *prev, *next;
    // see quota.c
    unsigned char line;              // its bind__line_kind plus 1; 0: in no line
    bool queued;                     // it waits in its line, or did until it was cancelled
    size_t bytes;                    // charged to the Lua state
    const struct bind_op_kind *kind; // NULL: in no line
    const char *who;
    struct bind_op *line_next;
};

/// Raise unless a request may begin: the value at `idx` is a callback, or it is nil and the
/// running code may wait.
void bind__op_check(lua_State *L, int idx, const char *fn);
/// `return bind__op_begin(L, op, idx, cancel)`: the work has begun. Raises nothing after a check. `cancel` NULL:
/// the work cannot be stopped; its answer comes, and that frees the request.
int bind__op_begin(lua_State *L, struct bind_op *op, int idx, void (*cancel)(struct bind_op *op));
/// Answer: push the values on the stack that this returns, then call bind__op_answer(). NULL: the answer is not wanted
/// any more, or was given already. Either way the face frees the request afterwards.
lua_State *bind__op_answer_begin(struct bind_op *op);
void bind__op_answer(struct bind_op *op, int n);
/// Answer nil and a message.
void bind__op_fail(struct bind_op *op, const char *message);

/// A fault of Lua code as a diagnostic, which borrows its texts.
struct gen_diag bind__diag_of(const struct fault *f);
/// Set the place of `d` to where the function behind `fn` begins, if it is from a file and still there. The path is borrowed
/// from the function.
void bind__place_of(lua_State *L, vm_ref fn, struct gen_diag *d);
/// Name the call for its diagnostics: `what` alone, or "what 'name'".
void bind__call_name(struct bind_call *c, const char *what, const char *name);
/// Stop the clock of a call while it waits for a user or client; with `rests` false start it again from 0.
void bind__call_rest(struct bind_call *c, bool rests);
/// Do not note its faults with the unit: the caller reports them.
void bind__call_quiet(struct bind_call *c);
void bind__calls_cancel(struct bind_owner *o);
void bind__ops_cancel(struct bind_owner *o);
/// Log a fault of Lua code and keep it with the unit.
void bind__note(struct bind_owner *o, enum gen_code code, const char *path, int line,
                const char *message);
/// The same with the line of Lua that called the C function which runs on `L`.
void bind__note_here(lua_State *L, enum gen_code code, const char *message);
/// The same for code that failed as `what` ("" when that is not known): the message begins with it, and
/// the first time the unit's log gets it too, with the traceback.
void bind__note_fault(struct bind_owner *o, const char *what, const struct gen_diag *fault);
/// Put a fault with its traceback into the unit's log.
void bind__log_fault(struct bind_owner *o, const char *what, const struct gen_diag *d);
bool bind__is_noted(const struct bind_owner *o, const struct gen_diag *d); // is exactly this known?

/// Push the list of hub.get_worktrees().
void bind__worktrees_push(const struct bind *b, lua_State *L);
/// Forget the worktrees; they stay on disk.
void bind__worktrees_close(struct bind *b);

// ---- quota.c: what one unit may have at once ------------------------------------------------------

enum bind__quota {
    QUOTA_TIMER,
    QUOTA_WATCH,
    QUOTA_EVENT,
    QUOTA_HOOK,
    QUOTA_OFFER,
    QUOTA_SOCKET,
    QUOTA_FILE, // counted for the Lua state: see io.c
    QUOTA__COUNT
};
enum bind__line_kind { LINE_FS, LINE_EXEC, LINE_HTTP, LINE__COUNT };

/// Requests of one kind of one owner.
struct bind__line {
    unsigned running, waiting;
    struct bind_op *first; // that waits
    struct loop_task *task;
};

struct bind__usage {
    unsigned n[QUOTA__COUNT];
    unsigned said; // bits: what was noted with the unit already
    size_t posted; // bytes in the queues of its registrations
    struct bind__line lines[LINE__COUNT];
};

void bind__usage_free(struct bind__usage *u, struct loop *loop);

/// Count one more of the running owner's, which holds `bytes` in C. Returns 0, or pushes nil and a
/// message and returns 2; `fn` is for the message.
int bind__quota_take(lua_State *L, enum bind__quota which, size_t bytes, const char *fn) MUST_CHECK;
void bind__quota_give(struct bind_owner *o, enum bind__quota which, size_t bytes);
/// Has a unit that has `n` of them reached the limit?
bool bind__quota_full(enum bind__quota which, unsigned n);
/// Push nil and the message that there are too many, and note it with the running unit, if there is one. Returns 2.
int bind__quota_refuse(lua_State *L, enum bind__quota which, const char *fn);

/// What requests of one kind have in common.
struct bind_op_kind {
    enum bind__line_kind line;
    int (*start)(struct bind_op *op, struct err *e); // 0, or a negative code
    void (*cancel)(struct bind_op *op);              // one that was started; as in struct bind_op
    void (*free)(struct bind_op *op);                // one that was not
};
/// `return bind__op_run(...)`: start a request that holds `bytes`, now or when its turn comes, after
/// bind__op_check(). One that cannot be started is answered and freed. `who` (static) is for messages.
int bind__op_run(lua_State *L, struct bind_op *op, const struct bind_op_kind *kind, const char *who,
                 size_t bytes, int callback);
/// Count `bytes` that a request holds in C as used by the running code's Lua state, until it is answered or cancelled.
/// Returns 0, or pushes nil and a message and returns 2. bind__op_run() does it by itself.
int bind__op_charge(lua_State *L, struct bind_op *op, size_t bytes, const char *who) MUST_CHECK;
/// It is over: it leaves its line, if it is in one, and its bytes are free. Answering and cancelling do this by
/// themselves.
void bind__op_release(struct bind_op *op);

// ---- reg.c: registrations ---------------------------------------------------------------------

struct bind_reg;

struct bind_reg_ops {
    const char *what; // "timer"
    enum bind__quota quota;
    enum gen_kind kind;                // of its item; GEN__KINDS: it is not an item of the unit
    void (*start)(struct bind_reg *r); // it may fire from now on; may be NULL
    void (*stop)(struct bind_reg *r);  // it must not fire any more; may be NULL
    bool (*refill)(
        struct bind_reg *r); // post more if there is any; false: there is none. May be NULL
    void (*idle)(struct bind_reg *r); // its handler has ended; may be NULL
    void (*free)(struct bind_reg *r);
};

/// What a handler is called with: a JSON text and a name, either may be NULL.
struct bind__post {
    char *json;
    size_t n;
    char *name;
};

/// A Lua function that is called when something happens, one call after the other. The first member
/// of a timer, a watch, a subscription.
struct bind_reg {
    struct bind_owner *o;
    const struct bind_reg_ops *ops;
    uint64_t id;
    vm_ref fn;
    struct gen_item *item; // NULL: the owner's alone, in its list
    struct bind_reg *prev, *next;
    unsigned refs; // its item or list, and the call under way
    bool live, busy, off, pumping;
    unsigned strikes; // time-outs in a row
    bool dropping;    // its queue was full, and that was said
    struct loop_task *task;
    vec(struct bind__post) queue;
    size_t at; // first in the queue
};

/// Register `r` for the running owner with the function at `idx`; pushes its id, or nil and a
/// message, and returns how many. `name` is what people see. On failure `r` is freed.
typedef int bind__reg_adder(lua_State *L, struct bind_reg *r, const struct bind_reg_ops *ops,
                            struct str name, int idx);
bind__reg_adder bind__reg_add;
/// The same, but pushes a handle whose off() removes it, whichever unit calls that.
bind__reg_adder bind__reg_add_handle;
/// Push the table {off = `off`}, with `id` as the upvalue of that function. Returns 1.
int bind__push_handle(lua_State *L, lua_CFunction off, uint64_t id);
/// The running owner's registration of that kind with this id; NULL: it has none. Ids can be guessed, so registrations of
/// other owners are never found.
struct bind_reg *bind__reg_find(lua_State *L, uint64_t id, const char *what);
/// Remove it. False when its unit has left already.
bool bind__reg_off(struct bind_reg *r);
/// Call its function in a later turn, after what was posted before. Texts are copied; STR_NULL and
/// NULL for none.
void bind__reg_post(struct bind_reg *r, struct str json, const char *name);
/// The same for the end of a connection, at most a few KiB: there is room for it when messages have filled the queue.
void bind__reg_post_end(struct bind_reg *r, struct str json);
/// Call refill() and the function in a later turn, if there is anything to post.
void bind__reg_poke(struct bind_reg *r);

void bind__regs_start(struct bind_owner *o);
void bind__regs_stop(struct bind_owner *o);
void bind__regs_close(struct bind_owner *o);

// ---- base.c -----------------------------------------------------------------------------------

/// Make all libraries of `vm` read-only, once they are complete. See base.c.
void bind__seal(struct vm *vm);
/// Push a read-only view of the table at `lib`.
void bind__push_sealed(lua_State *L, int lib);
/// Open a Lua state for modules or plugins, with hub.state, hub.loader and the authoring API; not sealed yet.
/// `name` is that of its first owner, who keeps the metatable of environments.
struct vm *bind__code_vm_open(struct bind *b, const char *name, struct vm_owner **own,
                              vm_ref *env_meta, struct state **state);
/// Push an environment for a unit, with tables of its own for the libraries; `meta` is its metatable.
void bind__push_env(lua_State *L, vm_ref meta);

// ---- log.c ------------------------------------------------------------------------------------

void bind__log(void *bind, const struct vm_owner *owner, enum log_level level, struct str text);
void bind__logs_close(struct bind *b);

// ---- the backend of the libraries (lua/lib.h): backend.c, timer.c, events.c, hooks.c, fs.c ------------

extern const struct lib_backend bind__backend;
extern const struct lib_timers bind__timers;
extern const struct lib_events bind__events;
extern const struct lib_hooks bind__hooks;
extern const struct lib_fs bind__fs;

// ---- hooks.c ----------------------------------------------------------------------------------

void bind__dispatches_cancel(struct bind *b);
/// `vm` is about to be closed: dispatches that wait need nothing of it any more.
void bind__dispatches_leave(struct bind *b, const struct vm *vm);
void bind__hooks_close(struct bind *b);
/// Register the function at `fn` of `L` for the running owner, as a handler of that kind. `who` is for
/// messages. Returns 0, or pushes nil and a message and returns 2.
int bind__hook_add(lua_State *L, const char *who, const struct lib_hook *h, enum hook_kind kind,
                   int fn, struct gen_item **out) MUST_CHECK;

// ---- on.c -------------------------------------------------------------------------------------

/// on(NAME, ...) and on_tool_call(...) for a table that holds them: see plugin_table.c.
int bind__on(lua_State *L);
/// Call the function `name` of the table `value`; a value that is no table, or has no such function, is fine. If it fails,
/// `fault`, which owns its strings, has the code `failed` or `timeout`.
void bind__call_life(struct bind_owner *o, vm_ref value, const char *name, enum gen_code failed,
                     enum gen_code timeout, struct gen_diag *fault);

// ---- events.c ---------------------------------------------------------------------------------

/// Subscribe the function at `idx` to events of that name; pushes what `add` pushes.
int bind__events_on(lua_State *L, struct str name, int idx, bind__reg_adder *add);
bool bind__is_hub_event(struct str name); // one of proto/events.def

// ---- plugin_load.c ----------------------------------------------------------------------------

/// The code on `L` is about to read `path` (absolute): while a plugin loads, that is one of its inputs.
void bind__note_read(lua_State *L, const char *path);
/// It is about to write `path`, or (NULL) to do what may write files.
void bind__note_write(lua_State *L, const char *path);

// ---- io.c -------------------------------------------------------------------------------------

/// One of Lua's files.
struct io_file {
    luaL_Stream stream; // first: Lua's functions see only this
    unsigned *open;     // the counter of its Lua state
    int code, signal;   // of io.popen: how the command ended
};
/// Push a closed file for `fn`; NULL: too many are open, and nil and a message were pushed.
struct io_file *bind__io_new(lua_State *L, const char *fn);
/// Open it with `file`, which it owns; `close` ends it with bind__io_close().
void bind__io_opened(struct io_file *f, FILE *file, lua_CFunction close);
int bind__io_close(struct io_file *f); // returns what fclose() does

// ---- http.c -----------------------------------------------------------------------------------

enum { BIND__HEADERS = 100 };
struct http_header;
/// Read the table of headers at `idx` into `out`, which has room for BIND__HEADERS; returns how many. The texts are copied
/// to `a`. Raises for `who` what is wrong with it.
size_t bind__read_headers(lua_State *L, int idx, const char *who, struct arena *a,
                          struct http_header *out);

// ---- os.c -------------------------------------------------------------------------------------

/// The environment of child processes whose caller gives none: the allowed part of the hub's, as a list in `a`. In a box
/// there is no TMPDIR but its own /tmp, which programs use when none is named.
const char *const *bind__environment(struct arena *a, bool boxed);
