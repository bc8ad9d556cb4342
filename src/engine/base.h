#pragma once

#include "base/arena.h"
#include "engine/child.h"

// What the threads of all engines share: their callbacks, their child, and what they were opened with.

/// The first member of a thread.
struct engine_base {
    struct engine_thread thread;
    struct engine_world *world;
    const struct engine_cb *cb; // NULL: no callback is called any more
    void *arg;
    struct engine_child *child; // NULL: none was started
    char *id;                   // the engine's name for the thread; NULL: it has not begun
    struct arena arena;         // of what it was opened with
    const char *cwd, *system, *past;
    const struct json *tools;
    struct loop_task *task; // calls back in the loop's next turn; NULL: none
};

/// Fill it in, in storage that is zero. What `q` says is copied; the rest is borrowed until engine_base_fini().
void engine_base_init(struct engine_base *b, const struct engine_ops *ops, struct engine_world *w,
                      const struct engine_spec *q, const struct engine_cb *cb, void *arg);
/// Close the child and cancel the task. No callback follows but on_reaped.
void engine_base_fini(struct engine_base *b);
/// pause() of engine_ops.
void engine_base_pause(struct engine_thread *t, bool paused);
/// The thread has begun with this id: call on_thread. False: `id` is empty, and the thread died with the message `none`.
bool engine_base_begun(struct engine_base *b, struct str id, bool resumed, const char *none);
/// on_end of engine_child_cb, for a child whose argument is the thread: the thread dies with it.
void engine_base_ended(void *arg, const struct err *e);
/// Call on_died, once; no other callback follows. The thread is closed inside.
void engine_die(struct engine_base *b, const struct err *e);
/// Parse a line that the engine printed, in `a`, which is emptied first. NULL: it is no JSON object, and the thread died
/// with a message that begins with `name`.
struct json *engine_read_line(struct engine_base *b, struct arena *a, struct str line,
                              const char *name);

/// Join a program and its arguments: `own`, then `more` (may be NULL), both NULL at the end. The result is a copy in `a`.
const char *const *engine_argv(struct arena *a, const char *const *own, const char *const *more);
/// Append `past`, which a new thread reads before the first message; nothing if it is empty.
void engine_add_past(struct buf *out, const char *past);
