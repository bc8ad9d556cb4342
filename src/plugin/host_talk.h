#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "loop/loop.h"
#include "loop/timer.h"
#include "plugin/host.h"

// The hub's side of the host protocol, whatever carries the lines: a process (host_proc.c) or a test. The `host` that
// others call is part of it.

struct host_talk;

/// How lines travel to the other side and how that is ended.
struct host_talk_way {
    /// Send one or more whole lines; UV_ENOBUFS when the other side has not read `max_unread` bytes.
    int (*send)(struct host_talk *t, struct str bytes, size_t max_unread);
    /// The talk is over for a fault: stop the other side, now. Nothing is sent any more.
    void (*stop)(struct host_talk *t);
    /// The owner let go: end the other side in good order. Nothing is sent any more.
    void (*close)(struct host_talk *t);
    /// Nothing of the talk waits in the loop any more; asked again after each stop and close.
    void (*idle)(struct host_talk *t);
};

enum host_talk_state { HOST_LOADING, HOST_SERVING, HOST_ENDED };

struct host_open_id {
    int64_t id;
    struct host_call *call; // NULL: its caller was told, or gave up
    uint64_t due;           // monotonic ms
};

/// In the storage of its way. Members are private to host_talk.c, but for these two: `closed`, and
/// `task`, which is not NULL while something waits in the loop.
struct host_talk {
    struct host host;
    struct loop *loop;
    const struct host_talk_way *way;
    struct host_owner owner;
    void *arg; // borrowed
    char *name;
    bool end_on_limit;
    enum host_talk_state state;
    bool closed;
    vec(struct host_open_id) open;
    int64_t last_id;
    struct timer timer; // of the id that is due first
    struct loop_task *task;
    uint64_t window; // when the current second began
    size_t n_unasked, unasked_bytes;
    enum gen_code why; // it ended
    char *message;
    bool end_told;
    size_t n_dropped;     // events in a row that it did not get
    uint64_t deaf_since;  // the first of these
    uint64_t deaf_logged; // when that was said last
};

/// Begin a conversation over `way`; everything is borrowed. End it when `task` is NULL.
void host_talk_init(struct host_talk *t, struct loop *l, const struct host_talk_way *way,
                    const char *name, const struct host_owner *owner, void *arg);
void host_talk_fini(struct host_talk *t);

/// Begin: send `load` with these members, to be answered within `ms`.
void host_talk_load(struct host_talk *t, struct str fields, uint32_t ms);
/// The other side sent a line (without its newline).
void host_talk_line(struct host_talk *t, struct str line);
/// Count `bytes` of an unsolicited message. A host that sends too many is ended.
void host_talk_unasked(struct host_talk *t, size_t bytes);
/// The other side will say no more. Its end should follow within a second, and tell why.
void host_talk_gone(struct host_talk *t);
/// End it for this reason; the first one counts.
void host_talk_doom(struct host_talk *t, enum gen_code why, const char *fmt, ...) PRINTF_LIKE(3, 4);
