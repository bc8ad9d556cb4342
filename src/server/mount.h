#pragma once

#include "server/server.h"

// A path of the server that another part answers by itself: its own headers, JSON or a stream of its own events.
// Host, Origin and the caller are checked before, as for every other path; sizes are bounded as everywhere.

struct mount_call; // one request under way

struct server_mount {
    const char *path; // "/mcp": exactly this path, with all its methods
    /// A whole request is here. Ends with mount_reply() or mount_end(), now or later.
    void (*request)(void *arg, struct mount_call *m);
    /// The peer is gone before the answer was complete. Nothing can be sent any more and `m` is freed when
    /// this returns. Comes from the loop's queue, never from inside a call of mount_*().
    void (*gone)(void *arg, struct mount_call *m);
    /// Write the JSON body of a refusal that the server gives before request() is called: no token, too large a body.
    /// `code` is as in CONTRACT's problems. NULL: problem+json.
    void (*refused)(struct buf *out, const char *code, const char *detail);
    void *arg;
};

/// Answer requests for `mount->path`. Before the first request; `mount` is borrowed until the server has closed. At
/// most MOUNTS_MAX.
void server_mount(struct server *s, const struct server_mount *mount);

// What was asked; all borrowed, and valid until the answer begins.
/// "GET", "POST", ...
const char *mount_method(const struct mount_call *m);
/// The body as it came.
struct str mount_body(const struct mount_call *m);
/// The value of the first header of that name (ASCII case ignored); `p` is NULL in it when there is none.
struct str mount_header(const struct mount_call *m, const char *name);
/// The caller's own, NULL at first.
void mount_set_data(struct mount_call *m, void *data);
void *mount_data(const struct mount_call *m);

/// Answer with a whole body, and free `m`. `type` may be NULL without a body; `headers` are more lines, each with
/// its CR LF, or NULL.
void mount_reply(struct mount_call *m, int status, const char *type, const char *headers,
                 struct str body);
/// Answer with an event stream of unknown length: mount_send() follows, then mount_end().
void mount_stream(struct mount_call *m, const char *headers);
/// Send whole frames. A peer that leaves more than MOUNT_UNREAD bytes unread is disconnected.
void mount_send(struct mount_call *m, struct str frames);
/// The stream is complete; frees `m`.
void mount_end(struct mount_call *m);

enum { MOUNT_UNREAD = 8 << 20, MOUNTS_MAX = 8 };
