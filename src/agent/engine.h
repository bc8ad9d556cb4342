#pragma once

#include "agent/provider.h"
#include "agent/tool.h"
#include "base/json.h"

// Engines: outside agents that run the turns of a session in place of our own loop.
//
//     session ──open──> thread (a process of the engine) ──turn──> events ──> journal, hooks, permissions
//
// An engine talks to its program and to nothing else. What it hears it tells by the functions of engine_cb, in
// the words of this page; turn_engine.c makes our events of that, asks permissions, keeps what a call is about to
// change, runs our tools and counts tokens. `engine = "native"` is no engine: it is the loop of turn.c itself.
//
// To add one: a `struct engine_kind` in a folder of its own, listed in engine/engines.c. docs/internals/engines.md
// shows the way of a turn and what each engine maps onto these calls.
//
// All of it belongs to the loop thread. Nothing may block it. Functions of engine_cb are never called from inside
// a function of engine_ops or from open(): defer them (loop_defer, or the engine's own process callbacks).

struct engine_thread;
struct engine_world; // what engines need of the hub: engine/world.h
struct provider_choice;

// ---- what the engine tells ----------------------------------------------------------------------

/// Who runs a call.
enum engine_runner {
    ENGINE_ASKS, // the engine, when allow() has come; refuse() otherwise
    ENGINE_RAN,  // the engine, and it does so already: it cannot be kept from it
    ENGINE_OURS, // a tool of ours: answer() brings the result
};

/// A call of a tool. Borrowed for the call.
struct engine_call {
    struct str id;            // unique in its turn
    struct str tool;          // our name for it: "shell" {cmd, cwd?}, "edit_file" {path}, ...
    const struct json *input; // an object
    enum engine_runner runner;
    enum tool_effect effect; // of a tool that is not one of ours; else not looked at
    struct str diff;         // what it will change, as a unified diff; may be empty
};

/// How a turn ended.
enum engine_end { ENGINE_COMPLETED, ENGINE_INTERRUPTED, ENGINE_FAILED };

/// Everything that is passed is borrowed for the call. Outside of a turn only on_thread, on_died, on_spawn and on_reaped
/// mean anything; the rest is ignored, and a call is refused. on_spawn alone is called from inside of open().
struct engine_cb {
    /// The thread can be resumed by this id from now on, also by another process. `resumed`: it is the one that was
    /// asked for; else it is a new one, which is told the past.
    void (*on_thread)(void *arg, struct str id, bool resumed);
    /// A piece of what the model says; exactly one of the two is not empty.
    void (*on_delta)(void *arg, const struct provider_delta *d);
    /// The pieces since the last whole message are void: the answer begins anew. `why` may be empty.
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
    /// The turn is over; once for each turn(). `why` says it for ENGINE_FAILED, else it is empty.
    void (*on_end)(void *arg, enum engine_end end, struct str why);
    /// The process is gone or of no more use; the last that comes. A turn under way fails. The thread is to be
    /// closed, and can be opened again by its id.
    void (*on_died)(void *arg, const struct err *e);
    /// A process of the thread is about to start. on_reaped follows when it and all that it started are gone, also
    /// after close(): `arg` stays until then.
    void (*on_spawn)(void *arg);
    void (*on_reaped)(void *arg);
};

// ---- what it is told ----------------------------------------------------------------------------

/// What a thread is opened with; borrowed for open().
struct engine_spec {
    const char *session;     // its id
    const char *command;     // of [engines.NAME]; NULL: the kind's own program, found in PATH
    const char *const *args; // NULL at the end, or NULL: none
    const char *thread;      // to be resumed; NULL: a new one
    struct str past; // the conversation so far as text, for a thread that begins anew; may be empty
    struct str system;          // instructions
    const struct json *tools;   // of ours that it may call: [{name, description, input_schema}]
    const char *dir;            // absolute, for the engine's own files; made when it is not there
    const struct tool_env *env; // box and variables of a command of this session
    const struct provider_choice *choice; // model, and how to reach it
};

/// A picture: its media type and its bytes in base64.
struct engine_picture {
    struct str media_type, data;
};

/// What is said. Borrowed for the call.
struct engine_turn {
    struct str text;
    const struct engine_picture *pictures; // with the text
    size_t n_pictures;
    struct str system; // instructions that changed since the thread was opened; empty: they did not
};

struct engine_ops {
    /// Begin a turn; none is under way. It may come before the process is ready: it begins then. One with pictures fails
    /// where the engine takes none.
    void (*turn)(struct engine_thread *t, const struct engine_turn *in);
    /// Say something to the turn under way.
    void (*steer)(struct engine_thread *t, struct str text);
    /// End the turn: on_end follows soon, or the thread is closed.
    void (*interrupt)(struct engine_thread *t);
    /// Read no further, or go on: the journal cannot keep up.
    void (*pause)(struct engine_thread *t, bool paused);
    /// The engine may run the call, with `input` in place of its own; NULL: as it is. Only where the kind `edits` it
    /// is another one.
    void (*allow)(struct engine_thread *t, struct str id, const struct json *input);
    /// It may not; `reason` is for the model, where the engine can pass it on.
    void (*refuse)(struct engine_thread *t, struct str id, struct str reason);
    /// The result of a tool of ours.
    void (*answer)(struct engine_thread *t, struct str id, struct str output, bool success);
    /// No callback but on_reaped follows. Its process and all that it started end: at first it is asked to.
    void (*close)(struct engine_thread *t);
};

struct engine_thread {
    const struct engine_ops *ops;
};

/// A kind of engine. Constant.
struct engine_kind {
    const char *name;     // "codex"
    const char *program;  // what is run; NULL: only `command` of [engines.NAME] says
    const char *install;  // the command that installs it; NULL: there is none
    const char *provider; // the kind of provider that it speaks to; NULL: any
    bool own_model;       // it has a model by itself: ours is not asked
    bool edits;           // allow() may bring another input than on_call did
    bool fixed_tools;     // a thread keeps the tools that it was begun with
    /// Begin or resume a thread. What goes wrong comes by on_died. `cb` and `arg` stay until close(), and until the last
    /// on_reaped.
    struct engine_thread *(*open)(struct engine_world *w, const struct engine_spec *spec,
                                  const struct engine_cb *cb, void *arg);
};
