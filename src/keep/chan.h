#pragma once

#include "keep/wire.h"
#include "loop/loop.h"

// A connection on which messages of wire.h go both ways. Belongs to the loop thread.

struct chan;

struct chan_cb {
    /// A message came. The channel may be closed inside.
    void (*on_msg)(struct chan *c, const struct wire_msg *m, void *arg);
    /// All that was sent has left. May be NULL.
    void (*on_drain)(struct chan *c, void *arg);
    /// The other end has closed the connection, or sent an invalid message. Called once; the owner closes the channel.
    void (*on_end)(struct chan *c, void *arg);
};

/// Take over the connected descriptor `fd`. Messages longer than `max` end it. `cb` and `arg` are borrowed.
int chan_open(struct chan **out, struct loop *l, int fd, size_t max, const struct chan_cb *cb,
              void *arg, struct err *e) MUST_CHECK;
/// Queue a message with payload `a` and then `b`; both are copied.
void chan_send(struct chan *c, enum wire_type type, struct str a, struct str b);
/// The first message on a connection to a keeper.
void chan_hello(struct chan *c, enum wire_role role);
/// The first messages of a viewer: HELLO and ATTACH. `offset` is where it left off, -1 for the start; `rows` and `cols`
/// are 0 while it has no size.
void chan_attach(struct chan *c, int64_t offset, uint32_t history, uint16_t rows, uint16_t cols);
/// RESIZE, in either direction.
void chan_resize(struct chan *c, uint16_t rows, uint16_t cols);
/// Bytes that have not left.
size_t chan_unsent(const struct chan *c);
/// Stop or resume taking messages, for back-pressure.
void chan_pause(struct chan *c, bool paused);
/// Close now; what is unsent is lost. No callback follows. NULL is allowed.
void chan_close(struct chan *c);
