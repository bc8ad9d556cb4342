#pragma once

#include <sys/types.h>

#include "base/str.h"
#include "loop/loop.h"

// Child processes. The hub never forks: it spawns `afloat-launch`, a small static program beside
// `afloat`, which makes a session and process group of its own, sets limits, and then either becomes
// the program or stays as its supervisor.
//
// The program starts with all signals at their defaults, no core dumps, and no descriptor but those
// asked for here. All of these functions belong to the loop thread.

struct proc;

enum proc_stdio {
    PROC_NULL,    // /dev/null
    PROC_PIPE,    // a pipe: proc_write() for stdin, on_output for stdout and stderr
    PROC_INHERIT, // ours
    PROC_FD,      // the descriptor in `*_fd`, borrowed for the call
    PROC_STDOUT,  // stderr only: with stdout, in the order in which it is written
};

struct proc_exit {
    int code;        // exit status, or -1
    int signal;      // signal that ended it, or 0
    bool launched;   // false: the program could not be started, `code` is the negative errno
    const char *why; // not launched: what failed, for people; else NULL. Borrowed for the call
    int limit;       // it was ended because its box passed this enum launch_limit; 0: it did not
    int no_box; // not launched because its box could not be made: which enum launch_kind; else 0
};

struct proc_cb {
    /// `which` is 1 or 2; n == 0 is the end of that stream. `bytes` are borrowed for the call. May be NULL:
    /// output is then discarded.
    void (*on_output)(struct proc *p, int which, struct str bytes, void *arg);
    /// The box listens: `from` has the socket for uv_accept(), which must be called. Needed with `loopback`.
    void (*on_listen)(struct proc *p, uv_stream_t *from, void *arg);
    /// Called once, after the streams have ended. The proc is freed when it returns.
    /// Supervised: every descendant is gone. Otherwise a grandchild may still hold a pipe open: what
    /// it has written until then is delivered, and the stream ends with the program.
    void (*on_exit)(struct proc *p, const struct proc_exit *x, void *arg);
};

struct proc_opts {
    const char *const *argv; // argv[0] is looked up in PATH of `env` unless it has a slash
    const char *const *env;  // exactly this, "NAME=value"; NULL is an empty environment
    const char *cwd;         // NULL: /
    enum proc_stdio in, out, err;
    int in_fd, out_fd, err_fd; // for PROC_FD
    int fd3;                   // given to the child as descriptor 3; 0 for none
    bool terminal;          // `in_fd` is a terminal: make it the controlling one, keep core dumps
    bool supervise;         // proc_kill(), its end and our own death end every descendant
    const char *const *box; // rules as in loop/launch.h, NULL at the end; needs `supervise`
    bool network;           // in a box
    bool loopback;          // in a box: only 127.0.0.1, where on_listen serves LAUNCH_PORT
    uint64_t box_memory;    // bytes for all processes of a box; 0: no limit
    const mode_t *umask;    // NULL: what proc_set_umask() said
    uint64_t file_limit;    // soft RLIMIT_NOFILE; 0: what the hub was started with
    uint64_t memory_limit, cpu_limit_s, process_limit, file_size_limit; // 0: as the hub's own
};

/// Where the launcher is expected: `afloat-launch` beside our own program. Caller frees; NULL with
/// `e` filled in when our own program cannot be found.
char *proc_launcher_path(struct err *e);
/// Open the launcher as a descriptor, once, at start: a tree that is rebuilt later does not mix versions. Also
/// notes the soft file limit for programs, so call it before the hub raises its own.
int proc_setup(struct err *e) MUST_CHECK;
/// The same with the launcher at `path`.
int proc_setup_at(const char *path, struct err *e) MUST_CHECK;
void proc_teardown(void);
/// The umask of programs that name none, and of files that are made for the user: what the hub was
/// started with, since its own is for its home. Without it programs inherit ours.
void proc_set_umask(mode_t mask);
mode_t proc_umask(void);
/// "0022", as AFLOAT_UMASK and the field `umask` have it.
bool proc_umask_parse(struct str text, mode_t *out);

/// Start a program. `opts` is only read during the call. On success `*out` lives until on_exit,
/// which also tells if the program could not be found or entered; an error here means that not even
/// the launcher started, and no callback follows.
int proc_spawn(struct proc **out, struct loop *l, const struct proc_opts *opts,
               const struct proc_cb *cb, void *arg, struct err *e) MUST_CHECK;

/// Queue a copy of `bytes` for its stdin; ignored after either end closed. Bounded: UV_ENOBUFS past
/// 16 MiB waiting, and nothing is queued then.
int proc_write(struct proc *p, struct str bytes);
void proc_close_stdin(struct proc *p); // after what is queued
/// Stop or resume reading its output, for back-pressure. While paused on_exit waits too.
void proc_pause(struct proc *p, bool paused);

/// Signal its whole process group; supervised: every descendant, wherever it went. Nothing happens
/// after it has exited.
void proc_kill(struct proc *p, int signum);
/// TERM now, KILL after `grace_ms`.
void proc_end(struct proc *p, uint64_t grace_ms);
int proc_pid(const struct proc *p); // supervised: of the supervisor
