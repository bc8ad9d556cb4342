#pragma once

#include "base/buf.h"
#include "base/err.h"

// How other programs talk to a running `afloat shell`.
//
// Each shell session owns a directory, `$AFLOAT_RUNTIME/shell/<id>/`, 0700 and ours:
//
//     pending                         what waits for the shell (AFLOAT_RELOAD_FILE); see offers.h
//     env.<id>  task.<id>             what its lines name
//     ack.<id>                        the shell has done that line; holds the status
//     ask.reload                      the shell's key was pressed
//     ctl.sock                        the socket of this header
//     rc.bash  zsh/  init.fish        the shell's rc files
//
// A call is one connection: a JSON object {"op": NAME, "arg": TEXT} on a line, and the answer, one
// JSON object on a line, before the wrapper closes. An answer with "error_code" is a failure.
//
//     status   {"session","pid","shell_pid","shell","project","state","paused","generation",
//               "applied","inputs","watching","changed_files":[],"duration_ms","error"?}; pid is the wrapper's
//              state: watching | building | ready (built, not applied yet) | reloaded | failed
//     reload   builds if an input changed (arg "force": always) and answers with the status when the
//              build is over; the shell applies it before its next command
//     pause, resume                   the status
//     error    {"error": TEXT or null}: the last failure's whole text
//     inputs   {"inputs":[{"path","kind"}]}
//     task     runs the task named by arg again: {"task","exit","output"?,"error"?} when it is over, or
//              {"task","queued":true,"output"?} for one that runs in the shell, at its next prompt

enum { CTL_ANSWER_MAX = 16 << 20, CTL_WAIT_MS = 600000 };

/// The directory of the Afloat shell that this process runs in: the one of AFLOAT_RELOAD_FILE, when
/// it is ours, closed to others, and holds a control socket. Caller frees; NULL when there is none.
char *ctl_find(void);

/// The directory of a session under `runtime` (struct home) whose project is `project`: one that
/// answers within two seconds. For a terminal next to the shell. Caller frees; NULL when there is none.
char *ctl_find_project(const char *runtime, const char *project);

/// Ask the wrapper of session `dir`; blocking, for one thread, ended early by interrupt.h's signals.
/// `arg` may be NULL. Appends the answer, one JSON object, to `answer`. ERR_UNREACHABLE when the
/// wrapper is gone; a failure that it reports is returned with its own text.
int ctl_call(const char *dir, const char *op, const char *arg, struct buf *answer,
             struct err *e) MUST_CHECK;
