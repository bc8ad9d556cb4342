#pragma once

#include "base/buf.h"
#include "loop/loop.h"

// The hub's end of a host's socket: lines in, lines out. Belongs to the loop thread.

struct host_wire;

struct host_wire_cb {
    /// One line without its newline, borrowed. The wire may be closed inside.
    void (*on_line)(void *arg, struct str line);
    /// Nothing more comes: 0 for the end of the stream, ERR_TOO_LARGE for a line above HOST_LINE_MAX,
    /// else what reading failed with. Only closing is left.
    void (*on_end)(void *arg, int status);
};

/// Take over the connected socket `fd`; it is closed in any case.
int host_wire_open(struct host_wire **out, struct loop *l, int fd, const struct host_wire_cb *cb,
                   void *arg, struct err *e) MUST_CHECK;

/// Send `bytes`: one or more lines with their newlines, copied where they have to wait. UV_ENOBUFS
/// when more than `max_unread` bytes wait already.
int host_wire_send(struct host_wire *w, struct str bytes, size_t max_unread) MUST_CHECK;

/// No callback after this; memory goes by itself. Unsent bytes are discarded. NULL is allowed.
void host_wire_close(struct host_wire *w);
