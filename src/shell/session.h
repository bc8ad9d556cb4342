#pragma once

#include "base/str.h"
#include "loop/loop.h"
#include "shell/status.h"

// A shell in our pseudo-terminal, on the user's terminal. It knows no project and no environment: the caller says
// what to run and what to show, and learns how the shell ended. Belongs to the loop thread.

struct session;

struct session_opts {
    struct loop *loop;
    const char *const *argv;
    const char *const *env; // exactly this
    const char *cwd;
    int terminal_in, terminal_out; // the user's terminal, in its foreground; borrowed
    enum status_mode status;
    /// The window has another size, and what is shown has to be shown again; may be NULL.
    void (*on_resize)(struct session *s, void *arg);
    /// The shell is over and the terminal given back. `code` is the exit code of the process: the
    /// shell's, 128+n when a signal ended it or us. `why` (may be NULL) says why it could not start.
    void (*on_exit)(struct session *s, int code, const char *why, void *arg);
    void *arg;
};

/// Take the terminal and start. The caller ends it with session_close(), after on_exit.
int session_open(struct session **out, const struct session_opts *o, struct err *e) MUST_CHECK;
void session_close(struct session *s); // NULL is allowed

/// Tell the shell that something is pending (offers.h).
void session_poke(struct session *s);

/// Show this from now on, where the mode has a place for it.
void session_show(struct session *s, const struct status *st);

/// The process id of the shell; 0 once it has ended.
int session_shell_pid(const struct session *s);
