#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/vec.h"
#include "keep/chan.h"
#include "keep/tail.h"
#include "loop/proc.h"
#include "loop/signal.h"
#include "loop/timer.h"
#include "pty/pty.h"
#include "vt/vt.h"

// What the files of the keeper's process share.
//
//     keeper.c       its life: the program, the terminal, when to go
//     keeper_spec.c  what it was asked to run
//     view.c         its viewers: connections, sizes, what each has seen

enum { TAIL_BYTES = 512 * 1024 };

/// What to run; all in `arena`.
struct keeper_spec {
    struct arena arena;
    const char *id, *socket, *cwd;
    const char **argv, **env; // NULL at the end
    int rows, cols;
    size_t history;
    uint64_t abandon_ms;
    const struct json *about; // the rest of the row, as it was given
};

struct view;

struct keeper {
    struct keeper_spec spec;
    struct loop loop;
    struct pty pty;
    struct proc *program; // NULL when it has ended
    int pid;
    int64_t started_ms;
    struct vt *vt;
    struct tail tail; // of clean bytes
    struct buf clean, input;
    uv_poll_t poll;
    uv_poll_t listener;
    int listen_fd;
    uv_fs_event_t watch; // of the socket's directory
    struct signal_watch *term;
    struct timer going;   // the program has ended, or both the hub and the socket are gone
    struct timer killing; // the program does not end
    struct timer stalled; // viewers are behind: how long the program waits for them
    struct view *views;
    char *title_told; // what viewers know
    struct timer telling;
    unsigned bells, notices;             // since it last fired
    vec(char *) missed;                  // notes that no hub heard: each its kind and its text
    bool exited, drained, leaving, lost; // `lost`: the socket is gone
    bool held;                           // the terminal is not read
    int status;
};

/// Parse the JSON of stdin. Checks that directory and program are there.
int spec__read(struct keeper_spec *s, struct str json, struct err *e) MUST_CHECK;

/// Serve the socket.
int view__listen(struct keeper *k, struct err *e) MUST_CHECK;
/// There is more in the tail, or the program has ended.
void view__pump(struct keeper *k);
/// Tell every viewer that said HELLO.
void view__note(struct keeper *k, enum wire_note kind, struct str text);
/// True when a viewer that can keep up is so far behind that it would lose bytes.
bool view__is_behind(const struct keeper *k);
/// Stop waiting for viewers that are behind: they begin anew with a snapshot.
void view__give_up_slow(struct keeper *k);
/// True when a hub is connected.
bool view__has_hub(const struct keeper *k);

/// Viewers took some output: read the program again if it was held back for them.
void keeper__viewers_moved(struct keeper *k);
/// Bytes for the program.
void keeper__type(struct keeper *k, struct str bytes);
void keeper__resize(struct keeper *k, int rows, int cols);
/// End the program with all of its session, then go.
void keeper__kill(struct keeper *k);
/// End after a while if neither a hub nor a viewer can reach us any more.
void keeper__check_abandoned(struct keeper *k);
/// The terminal's row as JSON.
void keeper__row(struct keeper *k, struct buf *out);
