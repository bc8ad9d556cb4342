#pragma once

#include "base/json.h"
#include "hook/points.h"

// The arguments of the agent's hook points, as records in C: kept once for a whole dispatch, converted
// for a handler field by field as it reads them. The code that raises a point owns them; targets (Lua in the
// hub, hosts) read them and put in what a handler changed.

struct hook_run;

struct hook_ask;

/// The caller of a tool, an MCP prompt or an MCP resource from outside, which can be told and asked things
/// while it runs. All on the loop thread; what is passed is borrowed for the call.
struct hook_caller {
    /// How far it is; `total` 0: unknown. `text` may be empty.
    void (*progress)(void *arg, struct str text, double done, double total);
    /// A line for the caller's log; `level` as in syslog ("info", "warning", ...).
    void (*log)(void *arg, struct str level, const struct json *data);
    /// Ask for {key: {method, params}, ...}. Returns 0 with `*answers` {key: result, ...} when they are known
    /// already; 1 when `ask->answered` will come, unless forget() comes first; or a negative code and `e`.
    int (*ask)(void *arg, struct hook_ask *ask, const struct json *requests,
               const struct json **answers, struct err *e);
    /// The answer is not needed any more.
    void (*forget)(void *arg, struct hook_ask *ask);
};

/// A question under way, in the storage of the code that asks.
struct hook_ask {
    /// Once, never from inside ask(): all answers, or NULL and why there are none.
    void (*answered)(struct hook_ask *ask, const struct json *answers, const struct err *e);
};

/// What every handler of a turn sees as `ctx`. Strings are borrowed, "" means none.
struct hook_ctx {
    struct str session_id, turn_id, working_dir, user_text, bot, model, outcome;
    int64_t depth;
    const struct json *state;  // object, this turn's, shared by all plugins
    const struct json *memory; // array; strings or {role, content}
    struct arena *arena;       // of the turn: where new state and memory are put
    /// A tool's ctx.progress(text); NULL: there is none here.
    void (*progress)(void *arg, struct str text);
    void *arg;
    const struct hook_caller *caller; // NULL: there is none, or it cannot be asked
    void *caller_arg;
    const struct json *client; // {name?, version?, capabilities}: what the caller is; NULL: unknown
};

struct hook_args {
    enum hook_point_id point;
    struct hook_ctx *ctx;
    const struct json *values[HOOK_ARGS]; // what points.def names: text, call, result, ...
    size_t n;
    struct arena *arena; // where changed values are put; lives as long as the caller needs them
    /// A handler changed the last value (chains), answered (first). May be NULL.
    void (*changed)(struct hook_args *a, const struct hook_run *run);
};

/// Put `value` in the place of the last argument after checking that it is of the point's kind (a call
/// has tool_name and an input object, a result has output, ...); ERR_INVALID with what is wrong. The
/// value is copied into `a->arena`.
int hook_args_take(struct hook_args *a, const struct json *value, struct err *e) MUST_CHECK;
/// Write the members `ctx` and `args` into the open object: how they travel to a host.
void hook_args_write(const struct hook_args *a, struct jw *w);

/// Write the member `ctx` alone; `c` may be NULL.
void hook_ctx_write(const struct hook_ctx *c, struct jw *w);

/// `state` and `memory` as a handler saw them when it began. Others may have ended since.
struct hook_seen {
    const struct json *state, *memory;
};

/// A handler that began with `seen` left `state` and `memory` like this (NULL: as they were): put what it
/// changed into what is there now, as copies in `c->arena`. Members of `state` count one by one: of two
/// handlers that waited at the same time and changed the same one, the last to end wins. What it appended
/// to `memory` is appended; a memory changed in another way takes the place of all of it.
void hook_ctx_merge(struct hook_ctx *c, const struct hook_seen *seen, const struct json *state,
                    const struct json *memory);
/// The same with values from outside. ERR_INVALID when `state` is no object, or `memory` no list of texts
/// and {role, content}; then neither is taken.
int hook_ctx_take(struct hook_ctx *c, const struct hook_seen *seen, const struct json *state,
                  const struct json *memory, struct err *e) MUST_CHECK;
