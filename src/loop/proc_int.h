#pragma once

#include "loop/launch.h"
#include "loop/proc.h"
#include "loop/timer.h"

// One standard stream for which a pipe was asked.
struct proc_stream {
    struct proc *proc;
    uv_pipe_t pipe;
    int which;
    bool open;   // the handle exists and is not closing
    bool ending; // stdin: close it when all is written
};

struct proc {
    struct loop *loop;
    struct proc_cb cb;
    void *arg; // borrowed
    uv_process_t process;
    uv_pipe_t channel;
    struct proc_stream in, out, err;
    struct timer grace; // of proc_end()
    struct loop_task *step;
    unsigned n_handles; // not closed yet; the last one frees us
    bool supervised;
    bool running;      // spawned: on_exit is owed
    bool exited;       // the process we spawned is gone
    bool channel_over; // and so is its end of the channel
    bool paused;
    bool closing; // nothing is delivered any more, handles are closing
    size_t n_report;
    struct launch_report report; // `n_report` bytes of the first one, then of the next
    struct proc_exit result;
    struct err why;
    char *program, *cwd; // for messages
};

/// A handle of `p` was made: count it and have it point back.
void proc__adopt(struct proc *p, uv_handle_t *h);
/// Close a handle that proc__adopt() counted.
void proc__drop(uv_handle_t *h);
/// Look again if all is over, from the deferred queue.
void proc__kick(struct proc *p);

/// Fill in `c` for stream `s`; `*child_fd` is the end to close after spawning, or -1.
int proc__stream_open(struct proc *p, struct proc_stream *s, int which, enum proc_stdio kind,
                      int fd, uv_stdio_container_t *c, int *child_fd);
void proc__stream_read(struct proc_stream *s, bool on);
/// The writers are gone or do not count: deliver what is in the pipe, then the end. Stops early
/// when paused meanwhile.
void proc__stream_drain(struct proc_stream *s);
void proc__stream_close(struct proc_stream *s);
