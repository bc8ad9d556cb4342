#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "loop/loop.h"

// A program that builds something: it has a time limit, its output is shown line by line, and everything that it
// started ends with it.

struct box;
struct env_child;

enum {
    ENV_CHILD_GRACE_MS = 2000,    // between TERM and KILL
    ENV_CHILD_KEEP_MAX = 8 << 20, // bytes of stdout that are kept
};

/// How it ended. All of it is borrowed for the call.
struct env_child_end {
    int code;        // 0, or a negative code with `why`
    const char *why; // "'direnv' ended with status 1"; "" when all is well
    struct str out;  // with keep_stdout: all of it
    struct str tail; // what it printed, at least the last 256 KiB of it, for messages
};

struct env_child_opts {
    struct loop *loop;
    const char *const *argv; // read during the call only, like env and cwd
    const char *const *env;
    const char *cwd;
    const struct box *box; // NULL: none
    uint64_t timeout_ms;   // 0: none
    bool keep_stdout;      // stdout is data; else it is shown like stderr
    bool side_channel;     // descriptor 3 is a pipe to `on_side`
    struct str input;      // what it reads; empty: nothing
    /// A line it printed, without newline. False: leave it out of messages. May be NULL.
    bool (*on_line)(struct str line, void *arg);
    /// Bytes from descriptor 3. A negative code ends the child, with `e` as the reason.
    int (*on_side)(struct str bytes, void *arg, struct err *e);
    void (*on_end)(const struct env_child_end *end, void *arg); // once; the child is freed after it
    void *arg;
};

/// Start it. On failure no callback follows.
int env_child_start(struct env_child **out, const struct env_child_opts *o,
                    struct err *e) MUST_CHECK;
/// TERM to all of it, KILL after a while; on_end follows with -ECANCELED.
void env_child_kill(struct env_child *c);
/// The same, but no callback follows, memory goes by itself.
void env_child_drop(struct env_child *c);
