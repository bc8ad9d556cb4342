#pragma once

#include "agent/provider.h"
#include "agent/tool.h"
#include "base/json.h"

// Engines: outside agents that run the turns of a session in place of our own loop.
//
//     session ──open──> thread (a process of the engine) ──turn──> events ──> journal, hooks, permissions
//
// An engine talks only to its program, and reports by the functions of engine_cb. turn_engine.c turns the reports into
// events, asks for permission, keeps the files that a call is about to change, runs our tools and counts tokens.
// `engine = "native"` is no engine: it is the loop of turn.c itself.
//
// To add one: a `struct engine_kind` in engine/, listed in engine/engines.c. docs/internals/engines.md describes a turn
// and what each engine maps onto these calls.
//
// All of it runs on the loop thread, and nothing may block. Functions of engine_cb are never called from inside
// a function of engine_ops or from open(): defer them (loop_defer, or the engine's own process callbacks).

struct engine_thread;
struct engine_world; // what engines need of the hub: engine/world.h
struct provider_choice;

// ---- what the engine reports --------------------------------------------------------------------

/// Who runs a call.
enum engine_runner {
    ENGINE_ASKS, // the engine, after allow(); not after refuse()
    ENGINE_RAN,  // the engine, and it has begun: it did not ask
    ENGINE_OURS, // the hub, as one of our tools: answer() gives the result
};

/// A call of a tool. Borrowed for the call.
struct engine_call {
    struct str id;            // unique in its turn
    struct str tool;          // our name for it: "shell" {cmd, cwd?}, "edit_file" {path}, ...
    const struct json *input; // an object
    enum engine_runner runner;
    enum tool_effect effect; // of a tool that is not one of ours; else not used
    struct str diff;         // what it will change, as a unified diff; may be empty
};

/// How a turn ended.
enum engine_end { ENGINE_COMPLETED, ENGINE_INTERRUPTED, ENGINE_FAILED };

/// All arguments are borrowed for the call. Outside of a turn only on_thread, on_died, on_spawn and on_reaped have an
/// effect; a call is refused, and the rest is ignored. Only on_spawn may be called from inside open().
struct engine_cb {
    /// From now on the thread can be resumed by this id, also by another process. `resumed`: it is the one that was
    /// asked for; else it is a new one, which was told the past.
    void (*on_thread)(void *arg, struct str id, bool resumed);
    /// A piece of the model's answer; exactly one of text and reasoning is not empty.
    void (*on_delta)(void *arg, const struct provider_delta *d);
    /// The pieces since the last whole message are void: the answer begins again. `why` may be empty.
    void (*on_void)(void *arg, struct str why);
    /// A whole message. Its pieces may have come before; on_delta is not called for it again.
    void (*on_message)(void *arg, struct str text);
    void (*on_call)(void *arg, const struct engine_call *call);
    /// Output of a call that the engine runs, as it comes.
    void (*on_progress)(void *arg, struct str id, struct str text);
    /// A call that the engine runs is over. `error` empty: it succeeded. `diff` may be empty.
    void (*on_result)(void *arg, struct str id, struct str output, struct str error,
                      struct str diff);
    /// One request to the model is over; its tokens, -1 for what is unknown. `window`: tokens that the model takes,
    /// 0 when that is unknown.
    void (*on_usage)(void *arg, const struct provider_usage *u, int64_t window);
    /// The turn is over; once for each turn(). `why` is the reason of ENGINE_FAILED, else empty.
    void (*on_end)(void *arg, enum engine_end end, struct str why);
    /// The process is gone or cannot be used any more; only on_reaped follows. A turn under way fails. The caller closes
    /// the thread, and can open it again by its id.
    void (*on_died)(void *arg, const struct err *e);
    /// A process of the thread is about to start. on_reaped follows when it and all that it started are gone, also
    /// after close(): `arg` must stay until then.
    void (*on_spawn)(void *arg);
    void (*on_reaped)(void *arg);
};

// ---- what the engine is told --------------------------------------------------------------------

/// What a thread is opened with; borrowed for open().
struct engine_spec {
    const char *session;        // its id
    const char *command;        // of [engines.NAME]; NULL: the kind's own program, found in PATH
    const char *const *args;    // NULL at the end, or NULL: none
    const char *thread;         // to resume; NULL: begin a new one
    struct str past;            // the conversation so far as text, for a new thread; may be empty
    struct str system;          // instructions
    const struct json *tools;   // of ours that it may call: [{name, description, input_schema}]
    const char *dir;            // absolute, for the engine's own files; created if missing
    const struct tool_env *env; // box and variables of a command of this session
    const struct provider_choice *choice; // model, and how to reach it
};

/// A picture: its media type and its bytes in base64.
struct engine_picture {
    struct str media_type, data;
};

/// The user's message. Borrowed for the call.
struct engine_turn {
    struct str text;
    const struct engine_picture *pictures; // with the text
    size_t n_pictures;
    struct str system; // instructions that changed since the thread was opened; empty: they did not
};

struct engine_ops {
    /// Begin a turn; none is under way. The process need not be ready yet. A turn with pictures fails if the engine takes
    /// none.
    void (*turn)(struct engine_thread *t, const struct engine_turn *in);
    /// Send a message to the turn under way.
    void (*steer)(struct engine_thread *t, struct str text);
    /// End the turn: on_end follows soon, or the caller closes the thread.
    void (*interrupt)(struct engine_thread *t);
    /// Stop reading, because the journal cannot keep up; or resume.
    void (*pause)(struct engine_thread *t, bool paused);
    /// The engine may run the call, with `input` in place of its own; NULL: unchanged. It is set only if the kind
    /// `edits`.
    void (*allow)(struct engine_thread *t, struct str id, const struct json *input);
    /// The engine may not run the call; `reason` is for the model, if the engine can pass it on.
    void (*refuse)(struct engine_thread *t, struct str id, struct str reason);
    /// The result of one of our tools.
    void (*answer)(struct engine_thread *t, struct str id, struct str output, bool success);
    /// Ask the process to end, then end it and all that it started. No callback but on_reaped follows.
    void (*close)(struct engine_thread *t);
};

struct engine_thread {
    const struct engine_ops *ops;
};

/// A kind of engine. Constant.
struct engine_kind {
    const char *name;     // "codex"
    const char *program;  // its name in the PATH; NULL: [engines.NAME] command is required
    const char *install;  // the command that installs it; NULL: there is none
    const char *provider; // the kind of provider that it can use; NULL: any
    bool own_model;       // it has its own model, and uses no provider
    bool edits;           // allow() may change the input of a call
    bool fixed_tools;     // a thread keeps the tools that it began with
    /// Begin or resume a thread. Failures come by on_died. `cb` and `arg` must stay until close() and the last on_reaped.
    struct engine_thread *(*open)(struct engine_world *w, const struct engine_spec *spec,
                                  const struct engine_cb *cb, void *arg);
};
