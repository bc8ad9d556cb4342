#pragma once

#include "loop/proc.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "rpc/rpc.h"
#include "sandbox/box.h"

// A program that talks in lines on its standard streams: an engine, an MCP server. A lane prepares it, the launcher
// starts it, in a box or without, and it ends with all that it started.

struct lineproc_cb {
    /// On the lane, before the program starts: make its box, which becomes the lineproc's, and what else it needs.
    /// On an error on_end follows with `e`.
    int (*prepare)(void *arg, struct box **box, struct err *e);
    /// A line of its output, which may be anything. lineproc_close() may be called inside.
    void (*on_line)(void *arg, struct str line);
    /// It has ended, or could not be started; `e` says why, with the last line that it wrote to stderr. Once, unless it
    /// was closed before. Call lineproc_close(), here or later.
    void (*on_end)(void *arg, const struct err *e);
    /// It is closed, and neither the lane nor a process has it: the storage may be freed. Never from inside of
    /// lineproc_close().
    void (*on_gone)(void *arg);
    /// As in struct proc_cb; NULL without `loopback`.
    void (*on_listen)(void *arg, uv_stream_t *from);
};

/// In the owner's storage.
struct lineproc {
    // set by the owner between lineproc_init() and lineproc_start(), borrowed until on_gone
    const char *const *argv;    // as in struct proc_opts
    const char *const *env;     // the same; prepare() may still fill it in
    uint64_t memory, processes; // limits in a box; 0: none
    bool loopback;              // as in struct proc_opts, if its box has no network
    // private, but for `tail` and `proc` to read
    struct loop *loop;
    const struct lineproc_cb *cb;
    void *arg;
    const char *who; // begins the messages: "the engine"
    struct box *box;
    struct proc *proc; // NULL: it does not run
    struct timer grace;
    struct rpc_lines lines;
    struct buf tail;   // the last of stderr
    struct buf queued; // lines for a program that does not run yet
    struct err fault;  // why it could not be prepared, or why we ended it
    bool preparing, ended, closed, paused;
};

/// Begin without a program; all pointers are borrowed.
void lineproc_init(struct lineproc *p, struct loop *l, const char *who,
                   const struct lineproc_cb *cb, void *arg);
/// Prepare it in `lane` under `key` (loop/work.h), then start it, supervised and with pipes, and send what waits. Once;
/// no callback comes from inside.
void lineproc_start(struct lineproc *p, struct lane *lane, uint64_t key);
/// Send a line; the newline is added. Lines sent before it runs wait, those after its end are dropped. A program that
/// does not read is killed.
void lineproc_send(struct lineproc *p, struct str line);
/// Stop or continue reading its output.
void lineproc_pause(struct lineproc *p, bool paused);
/// No callback but on_gone follows. Its stdin is closed; what does not end by that gets TERM, then KILL.
void lineproc_close(struct lineproc *p);
