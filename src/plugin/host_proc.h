#pragma once

#include "loop/loop.h"
#include "plugin/host.h"

// A host that is a child process and speaks the host protocol (proto/host.h) on descriptor 3.

struct host_proc_opts {
    const char *name;        // of the plugin: AFLOAT_PLUGIN, and for messages
    const char *const *argv; // the program
    const char *const *env;  // more variables, "NAME=value", NULL at the end; NULL: none
    const char *cwd;         // NULL: /
    struct str load;         // members of the load message, as in host_call()
    uint32_t load_ms;        // until loaded or failed; 0: HOST_LOAD_MS
    bool end_on_limit;       // a limit that its code passed is its end, not only that call's
    uint64_t cpu_limit_s, process_limit, file_size_limit, file_limit,
        memory_limit; // as in proc_opts
};

enum {
    HOST_LOAD_MS = 5000,
    HOST_HANG_MS = 1000,         // an id that is overdue must be answered within this
    HOST_CLOSE_MS = 2000,        // from closing the socket to TERM
    HOST_KILL_MS = 1000,         // from TERM to KILL
    HOST_FLOOD_N = 5000,         // unsolicited messages in a second
    HOST_FLOOD_BYTES = 16 << 20, // and bytes
    HOST_UNREAD_MAX = 32 << 20,  // bytes that it has not read yet
    HOST_EVENTS_MAX = 1 << 20,   // from here on it gets no events
    HOST_DEAF_MS = 10000,        // and after this time of that it is ended
};

/// Start the process and send it `load`. `opts` is read during the call only, `owner` is copied,
/// `arg` borrowed until host_close(). On failure `*out` is NULL and nothing is called back.
int host_proc_open(struct host **out, struct loop *l, const struct host_proc_opts *opts,
                   const struct host_owner *owner, void *arg, struct err *e) MUST_CHECK;

/// Its supervisor's process, for people and tests; 0 when it is gone.
int host_proc_pid(struct host *h);
