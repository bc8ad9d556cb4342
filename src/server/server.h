#pragma once

#include "api/api.h"
#include "loop/loop.h"

// The HTTP face: listeners (Unix socket and TCP in one code path), HTTP/1.1, authentication, routing
// to operations, server-sent events.

struct server;

struct server_limits {
    size_t line_bytes, header_bytes, body_bytes;
    size_t connections; // of each listener; fewer where the process may open few descriptors
    size_t strangers;   // connections on TCP that have not brought the token or a cookie yet
    size_t ahead_bytes; // unparsed, of pipelined requests that wait for their turn
    uint64_t header_ms, body_ms, idle_ms, write_ms; // time-outs
    uint64_t heartbeat_ms;                          // comment on silent event streams
};
extern const struct server_limits server_default_limits;

/// One file of the web page, below /assets/. Its name changes with its content.
struct server_asset {
    const char *name, *type, *etag; // etag: without quotes; name NULL ends a table
    struct str body, brotli, gzip;
};

/// The web page, made by tools/embed_web.py.
struct server_page {
    const char *html; // with %NONCE%, of the answer's policy, and %DIR%, see server_set_start_dir()
    const struct server_asset *assets;
};

struct server_opts {
    struct api *api;
    struct event_log *events;
    const struct server_limits *limits; // NULL: server_default_limits
    const char *version;
    const char *build;              // sent as `Afloat-Build` over the Unix socket; NULL: not sent
    const struct server_page *page; // NULL or without HTML: the plain page; borrowed
};

/// Make a server that listens nowhere yet. Strings of `opts` are copied, `api` and `events` borrowed until
/// server_close() has called `done`. Never NULL.
struct server *server_open(struct loop *l, const struct server_opts *opts);

/// Listen on a Unix socket; any path length works. Mode 0600; only our own uid is served. A stale
/// file in the way is replaced (the caller holds the home's lock). Listening again, after the file
/// was lost, keeps the connections of before. A socket at `path` that the hub was started with (systemd's socket
/// activation) is used as it is.
int server_listen_unix(struct server *s, const char *path, struct err *e) MUST_CHECK;
/// True while the socket file at the listening path is still ours.
bool server_socket_in_place(const struct server *s);
/// Remove the socket file, if it is ours, so that no more clients come. One that was inherited stays: the program that
/// made it keeps listening, and starts the next hub.
void server_drop_socket(struct server *s);

/// Listen on TCP "HOST:PORT" (port 0: any free one). `exact` false: when the port is taken, any
/// free one is used instead. Addresses other than loopback need `behind_proxy`. A listener that is open is closed once
/// the new one listens, and stays where that fails. ERR_UNREACHABLE after server_close().
int server_listen_tcp(struct server *s, const char *address, bool exact, struct err *e) MUST_CHECK;
/// Take no more connections over TCP; those that are open stay. Nothing happens while it does not listen.
void server_close_tcp(struct server *s);
/// "127.0.0.1:4700", or "" while it does not listen on TCP. Borrowed.
const char *server_tcp_address(const struct server *s);

/// More names by which clients may address the hub (CONTRACT 4): Host values, and the public address behind a proxy.
void server_allow(struct server *s, const char *const *hosts, size_t n, const char *public_url,
                  bool behind_proxy);

/// The bearer token; copied. Setting it ends every cookie and open code of the old one.
void server_set_token(struct server *s, struct str token);
/// Make a one-time code for GET /?code=..., good for `seconds`. `out` has room for 44 bytes.
void server_make_code(struct server *s, int64_t seconds, char out[44]);

/// The directory in which the page begins sessions unless another is chosen; copied.
void server_set_start_dir(struct server *s, struct str dir);

/// Write the answer to `GET /healthz`. On the thread that called server_stalled(), with a lock of the server's held.
typedef void server_health_cb(void *arg, bool over_socket, struct jw *w);
/// The loop thread is held up: on another thread, take the connections that wait and answer those which ask for
/// `/healthz`. Call it again and again while it lasts, then server_stall_ended(): the loop serves all others.
void server_stalled(struct server *s, server_health_cb *write, void *arg);
/// See server_stalled(). On any thread.
void server_stall_ended(struct server *s);

/// Counters in the Prometheus text format.
void server_metrics(const struct server *s, struct buf *out);

/// Close the listeners now, let requests under way finish for `grace_ms` (event streams end at
/// once), then close the rest and call `done`. The server is freed when it returns.
void server_close(struct server *s, uint64_t grace_ms, void (*done)(void *arg), void *arg);
