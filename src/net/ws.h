#pragma once

#include "base/buf.h"
#include "base/err.h"

// WebSocket frames (RFC 6455) over wslay, for the server and the client: bytes in, messages out, and the other way.

struct ws_frames;

enum { WS_NORMAL = 1000, WS_GOING = 1001, WS_PROTOCOL = 1002, WS_ABNORMAL = 1006 };

/// A whole message of the peer, borrowed. Not for pings, which are answered here.
typedef void ws_message(void *arg, struct str bytes, bool binary);

/// One side of a connection; messages above `max` bytes end it. What is to be sent is appended to `out`, which is
/// borrowed.
struct ws_frames *ws_frames_new(bool client, size_t max, struct buf *out, ws_message *cb,
                                void *arg);
void ws_frames_free(struct ws_frames *f); // NULL is allowed
/// Bytes of the peer came. A negative code: it broke the protocol; a close for that is in `out`.
int ws_frames_feed(struct ws_frames *f, struct str bytes) MUST_CHECK;
/// Send a message, or a ping without bytes. Nothing happens after a close.
void ws_frames_send(struct ws_frames *f, struct str bytes, bool binary);
void ws_frames_ping(struct ws_frames *f);
/// Send a close frame, after what is queued.
void ws_frames_close(struct ws_frames *f, int code, struct str reason);
/// Both sides have sent a close frame, or the protocol was broken: the connection can be closed.
bool ws_frames_done(const struct ws_frames *f);
/// Why the peer closed: its code (WS_ABNORMAL: it did not) and reason. Borrowed.
int ws_frames_peer_code(const struct ws_frames *f);
struct str ws_frames_peer_reason(const struct ws_frames *f);
