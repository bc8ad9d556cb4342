#pragma once

#include "engine/gateway.h"
#include "engine/world.h"

// The process of an engine: a program that talks in lines on its standard streams, in the box of its session.
//
//     lane: its directory and files, the box ──> spawn (supervised, in the box) ──> lines ──> on_line
//
// The launcher starts it in a session and process group of its own. It and all that it started end when it is closed, and
// when the hub ends, however that happens.

struct engine_child;

struct engine_child_cb {
    /// A line of its output; it may be anything. The child may be closed inside.
    void (*on_line)(void *arg, struct str line);
    /// Its output has ended; `e` says why, with the last lines of its stderr. Called once; the owner then closes it.
    void (*on_end)(void *arg, const struct err *e);
};

/// A file that is written to the engine's directory before the program starts.
struct engine_file {
    const char *name;
    struct str text;
};

/// Borrowed for the call, but for `gateway`, which becomes the child's own.
struct engine_child_spec {
    const char *const *argv;      // NULL at the end
    const char *const *env;       // "NAME=value", in addition to those of `place` or in their place
    const char *const *without;   // prefixes of variables of `place` that it does not get
    const struct tool_env *place; // box and variables of a command of the session
    const char *dir;              // its own directory, which it may write
    const struct engine_file *files;
    size_t n_files;
    struct gateway *gateway;       // NULL: it does not need one
    const struct engine_cb *owner; // on_spawn and on_reaped are called
    void *owner_arg;
};

/// Does a command of this place run in a box without network, so that a gateway must be `boxed`?
bool engine_child_boxed(const struct tool_env *place);

/// Start it. Failures come by on_end, never from inside.
struct engine_child *engine_child_start(struct engine_world *w, const struct engine_child_spec *q,
                                        const struct engine_child_cb *cb, void *arg);
/// A JSON text that is being written: a line for the child, or an answer of a gateway.
struct engine_line {
    struct buf text;
    struct jw w;
};
/// Begin one. engine_line_flush() sends it.
struct jw *engine_line_new(struct engine_line *line);
void engine_line_flush(struct engine_child *c, struct engine_line *line);
/// The same for a line that is one object: members follow. engine_line_send() ends and sends it.
struct jw *engine_line_begin(struct engine_line *line);
void engine_line_send(struct engine_child *c, struct engine_line *line);
/// Stop reading its output, or resume.
void engine_child_pause(struct engine_child *c, bool paused);
/// Close its stdin, then end what does not end by that. No callback but on_reaped of its owner follows.
void engine_child_close(struct engine_child *c);
