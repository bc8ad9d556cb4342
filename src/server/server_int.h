#pragma once

#include <sys/stat.h>

#include "base/map.h"
#include "base/vec.h"
#include "loop/timer.h"
#include "net/date.h"
#include "net/http1.h"
#include "server/door.h"
#include "server/mount.h"
#include "server/server.h"

// What the files of server/ share. From the wire upwards:
//
//     listen.c ──> conn.c (bytes, writing, time-outs) ──> one of three protocols:
//                      http.c    requests, one after the other
//                      stream.c  an event stream, after its head
//                      linger    the last answer is out, the peer may still talk (conn.c)
//     http.c ──> request.c (may this be served?) ──> router.c, hosts.c, auth.c
//            ──> call.c ──> params.c, idempotency.c ──> op_run() ┄┄> respond.c ──> conn.c
//                       ──> route.c ──> a plugin's handler ┄┄> respond.c

struct conn;
struct call;
struct server;

// ---- conn.c: a connection, whatever is spoken on it -----------------------------------------

/// What a connection speaks. A protocol may hand it to another with conn__take(). All members are called on the loop
/// thread, and all but on_end must be set.
struct conn_proto {
    void (*on_read)(struct conn *c, struct str bytes);
    void (*on_eof)(struct conn *c);      // the peer sends no more; it may still read
    void (*on_drain)(struct conn *c);    // all that was queued for writing has left
    void (*on_deadline)(struct conn *c); // see conn__deadline()
    void (*on_gone)(struct conn *c);     // the connection closes or was handed on: free c->state
    /// The hub closes, or the peer may no longer read: end properly. NULL: it is no stream.
    void (*on_end)(struct conn *c);
};

union server__socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct conn {
    union server__socket io;
    struct server *server;
    struct conn *prev, *next;
    const struct conn_proto *proto;
    void *state; // the protocol's
    struct timer timer;
    uint64_t deadline;   // the protocol's; 0 for none
    uint64_t stall_at;   // when a write without progress is given up; 0 while none is under way
    size_t stall_left;   // bytes that were unwritten when stall_at was set
    size_t ignored;      // bytes that conn__ignore() got
    struct buf out;      // not yet given to libuv; leaves with conn__flush()
    struct write *write; // given to libuv, or NULL
    bool over_socket;    // the peer is our own user, on the Unix socket
    bool stranger;       // on TCP, and no request on it was authenticated yet
    bool corked;         // writes are collected
    bool eof;            // noted while lingering
    bool finishing;      // conn__finish() was called
    bool closing;
};

void conn__accept(struct server *s, uv_stream_t *listener, bool over_socket);
/// Serve the connection `fd`, which another thread accepted.
void conn__adopt(struct server *s, int fd, bool over_socket);
/// While corked writes are collected; uncorking flushes and, when all has left, calls on_drain.
void conn__cork(struct conn *c, bool on);
/// Write what is queued as far as the kernel takes it; libuv gets the rest. Nothing while corked.
void conn__flush(struct conn *c);
/// Write bytes now, after what is queued, copying only what the kernel does not take.
void conn__send(struct conn *c, struct str bytes);
bool conn__blocked(const struct conn *c); // some queued bytes have not left yet
void conn__read(struct conn *c, bool on);
/// Call on_deadline at `at` (monotonic); 0 for never. Cheap: the timer is re-armed lazily.
void conn__deadline(struct conn *c, uint64_t at);
/// Set the deadline for the next sign of life of a stream.
void conn__heartbeat(struct conn *c);
/// `on_read` of a stream: drop what its peer sends, and close the connection when that is too much.
void conn__ignore(struct conn *c, struct str bytes);
/// A request on it was authenticated: it no longer counts as a stranger's.
void conn__know(struct conn *c);
/// Let another protocol take over, and read for it. The old one's on_gone is called.
void conn__take(struct conn *c, const struct conn_proto *proto, void *state);
/// Close once all has left and the peer has had time to read it.
void conn__finish(struct conn *c);
/// Send a piece of a stream's body; not empty, since an empty chunk would end it.
void conn__send_body(struct conn *c, struct str bytes, bool chunked);
/// on_deadline of an event stream: a comment shows both sides that the other is there.
void conn__show_life(struct conn *c, bool chunked);
/// End the body of a stream, then the connection as conn__finish() does.
void conn__end_stream(struct conn *c, bool chunked);
void conn__close(struct conn *c); // now; may be called twice
/// The peer's address for people and for limits: "unix", "127.0.0.1".
void conn__peer(const struct conn *c, char *out, size_t n);

// ---- http.c ----------------------------------------------------------------------------------

void http__start(struct conn *c);
struct reply;
/// Answer the request under way; then parse the next one if `keep`, else end the connection. Sets the
/// reply's `keep` and `old`. After a streamed reply the connection is the caller's.
void http__reply(struct conn *c, struct reply *reply, bool keep);
/// Answer with a problem (or page) and end the call under way.
struct refusal;
void http__refuse(struct conn *c, const struct refusal *no, bool keep);
/// The request under way is answered by another protocol, which takes the connection over.
void http__switch(struct conn *c);
bool http__idle(const struct conn *c);                  // speaks HTTP and waits for a request
const struct http1 *http__parser(const struct conn *c); // the head of the request under way

// ---- request.c: what is asked for, and whether it is allowed ------------------------------------

/// The headers we look at; `p` is NULL where there was none.
struct fields {
    struct str host, origin, authorization, cookie, content_type, expect, accept, last_event_id,
        idempotency_key, fetch_site, fetch_mode, transfer_encoding, accept_encoding, if_none_match,
        upgrade, ws_key, ws_version;
    const char *doubled; // name of a header that may come once but came twice
};

enum target {
    TARGET_OP,
    TARGET_PAGE,
    TARGET_ASSET,
    TARGET_CODE,
    TARGET_OPTIONS,
    TARGET_PLUGIN,
    TARGET_MOUNT,
    TARGET_FRONT,
};

/// Why a request is not served, before it becomes a problem+json.
struct refusal {
    enum problem problem;
    char detail[300];
    const char *hint;                 // static, or NULL
    char allow[48];                   // for 405 and OPTIONS
    unsigned retry_after_s;           // for 429
    bool page;                        // show people a page instead
    const struct server_mount *mount; // which writes errors in its own shape; NULL: none
};

enum { ROUTE_PARAMS = 4 };
struct match {
    const struct op *op;             // NULL: no route has this path and method
    struct str params[ROUTE_PARAMS]; // raw, in the order of the path's braces
    unsigned methods;                // bit per enum op_method that this path has
};

struct asked {
    enum target target;
    struct fields fields;
    struct str target_text; // as it was sent
    struct str path, query; // raw parts of it
    struct str code;        // of GET /?code=...
    struct match match;
    const struct server_asset *asset; // of TARGET_ASSET
    const struct server_mount *mount; // of TARGET_MOUNT
    bool known;                       // authenticated, by token or cookie
    bool by_cookie;                   // the latter
    bool cors;                        // an Origin of ours was named: echo it
    bool wants_continue;
};

/// Look at the head of a request and decide. False: `no` says why. Reads and counts, answers nothing.
bool request__admit(struct server *s, const struct http1 *p, const struct conn *c,
                    struct asked *out, struct refusal *no);
/// Fill in a 401, or a 429 when this peer has failed too often. Counts and logs. Returns false.
bool request__unauthorized(struct server *s, const struct conn *c, struct refusal *no,
                           const char *why);
/// Fill in `no`; returns false.
bool request__refuse(struct refusal *no, enum problem p, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool request__is_json(struct str content_type);

// ---- call.c: a request on its way through an operation ----------------------------------------

struct call {
    struct op_call op;
    struct arena arena;
    struct buf body;
    struct conn *conn;     // NULL when it is gone
    struct server *server; // NULL when it is gone
    struct call *prev, *next;
    struct idem_entry *idem;
    struct plugin_call *plugin; // while a plugin has it; see route.c
    struct mount_call *mount;   // while another part has it; see mount.c
    struct asked asked;         // spans of the connection's head
    bool running;               // the whole message is here
    bool head_only, keep, old;
};
struct call *call__new(struct conn *c, const struct http1 *p, const struct asked *asked);
void call__free(struct call *r);
/// Run it. The function that answers ends the call.
void call__run(struct conn *c, struct call *r);
/// Answer the call and end it. Sets the reply's `head_only`.
void call__reply(struct call *r, struct reply *reply);
/// The origin that an answer names for CORS; STR_NULL: none.
struct str call__origin(const struct call *r);

// ---- route.c: requests that plugins answer ---------------------------------------------------

/// Is it a path below /api/plugins/NAME?
bool route__is(struct str path);
/// Hand the call to the plugin's route. The function that answers ends the call.
void route__run(struct conn *c, struct call *r);
/// The peer is gone: cancel the plugin's handler. `r->plugin` is set, and the call may be freed after this.
void route__cancel(struct call *r);

// ---- mount.c: a path that another part answers -------------------------------------------------

/// The mount of this path; NULL when there is none.
const struct server_mount *mount__find(const struct server *s, struct str path);
/// Hand the call to its part. The function that answers ends the call.
void mount__run(struct conn *c, struct call *r);
/// The connection is gone before the answer began: `r->mount` is set, and the call may be freed after this.
void mount__lost(struct call *r);

// ---- front.c: files of plugins' web sides -------------------------------------------------------

/// Is it /front/NAME/REVISION/FILE?
bool front__is(struct str path);
/// Answer with the file. Ends the call.
void front__answer(struct conn *c, struct call *r);

// ---- params.c: path, query and body become the parameters of an operation --------------------

/// Percent-decode into the arena. False on bad escapes, NUL or bytes that are not UTF-8. With
/// `plus` a `+` is a space, as in queries.
bool params__decode(struct arena *a, struct str raw, bool plus, struct str *out);
/// Build and check the object for op_call. The result may point into `body`.
bool params__build(struct arena *a, const struct asked *q, struct str body, const struct json **out,
                   struct refusal *no);

// ---- router.c --------------------------------------------------------------------------------

struct router {
    struct map first; // first segment -> its routes, a list
    struct route *routes;
};
void router__init(struct router *r);
void router__fini(struct router *r);
/// Find the operation of a method and a raw path. HEAD is asked for as GET.
void router__match(const struct router *r, enum op_method method, struct str path,
                   struct match *out);
/// "GET, HEAD, POST, OPTIONS" of a set of methods.
void router__allow(unsigned methods, char *out, size_t n);

// ---- hosts.c: the names that are ours ---------------------------------------------------------

struct hosts {
    vec(char *) allowed;
    char *public_origin; // "https://name" of public_url; NULL without one, or without a proxy
    struct hosts_local local;
};
void hosts__fini(struct hosts *h);
void hosts__set(struct hosts *h, const char *const *names, size_t n, const char *public_url,
                bool behind_proxy);
bool hosts__valid(struct str host);
bool hosts__local(const struct hosts_local *h, struct str host);
bool hosts__allows(const struct hosts *h, struct str host);
bool hosts__allows_origin(const struct hosts *h, struct str origin);
/// True when requests for this Host came through https.
bool hosts__secure(const struct hosts *h, struct str host);

// ---- auth.c ------------------------------------------------------------------------------------

enum { SECRET_TEXT = 44 }; // 256 bits in base64url, with the NUL

struct auth;
enum auth_answer { AUTH_NONE, AUTH_WRONG, AUTH_TOKEN, AUTH_COOKIE };

struct auth *auth__new(struct loop *l);
void auth__free(struct auth *a);
void auth__set_token(struct auth *a, struct str token);
/// 256 random bits as text.
void auth__random(char out[SECRET_TEXT]);
enum auth_answer auth__check(struct auth *a, struct str authorization, struct str cookie);
void auth__make_code(struct auth *a, int64_t seconds, char out[SECRET_TEXT]);
/// Trade a code for a session; it works once. `out` gets the value of the cookie.
bool auth__redeem(struct auth *a, struct str code, char out[SECRET_TEXT]);
/// Note a failure of this peer. 0: still within its allowance, else the seconds to wait.
unsigned auth__failed(struct auth *a, struct str peer);

// ---- idempotency.c -------------------------------------------------------------------------------

struct idem;
struct idem_entry;
struct idem_answer {
    int status;
    const char *type; // borrowed from the entry
    const char *location;
    struct str body;
    bool streamed;  // the events of a turn: `body` is its id
    uint64_t after; // and they come after this one
};
enum idem_found { IDEM_NEW, IDEM_REPLAY, IDEM_RUNNING, IDEM_DIFFERENT };

struct idem *idem__new(struct loop *l);
void idem__free(struct idem *t);
/// Look `key` up for an operation and what was asked of it. NEW: `*entry` is to be finished or
/// dropped (NULL when the table is full of running ones). REPLAY: `*answer` is filled in.
enum idem_found idem__begin(struct idem *t, enum op_id op, struct str key, struct str asked,
                            struct str body, struct idem_entry **entry, struct idem_answer *answer);
void idem__finish(struct idem *t, struct idem_entry *x, const struct idem_answer *answer);
void idem__drop(struct idem *t, struct idem_entry *x);

// ---- respond.c -----------------------------------------------------------------------------------

struct reply {
    int status;
    const char *type; // content type, or NULL without a body
    struct str body;
    const char *location; // NULL for none
    const char *allow;
    const char *headers; // more lines, each with its CR LF; ours, or checked by route.c
    bool caches;         // they say how it may be cached
    struct str origin;   // to echo for CORS
    unsigned retry_after_s;
    bool challenge; // 401: say how to authenticate
    bool keep;      // the connection stays
    bool head_only; // HEAD: everything but the body
    bool streamed;  // a body of unknown length follows
    bool old;       // HTTP/1.0
};
void respond__write(struct conn *c, const struct reply *r);
/// The body of a problem+json for `no`; `out` is the caller's.
void respond__problem(struct buf *out, const struct refusal *no);

// ---- page.c --------------------------------------------------------------------------------------

/// Headers of every page: strict policy, no framing, no caching by others.
extern const char page__headers[];
/// Answer with the web page, or with the plain one where none was built. Ends the call.
void page__answer(struct conn *c, struct call *r);
/// The file that a raw path names, or NULL.
const struct server_asset *page__asset(const struct server *s, struct str path);
/// Answer with the file `r->asked.asset`, compressed as the browser can take it. Ends the call.
void page__answer_asset(struct conn *c, struct call *r);
void page__write_refused(struct buf *out, const struct refusal *no);

// ---- stream.c ------------------------------------------------------------------------------------

/// Hand `c` to an event stream. Its head is in the queue already.
void stream__start(struct conn *c, const struct event_filter *f, uint64_t after, bool chunked);

// ---- ws.c: terminals over WebSockets -------------------------------------------------------------

/// Is it a terminal, and does the peer want a WebSocket?
bool ws__is_asked(const struct asked *q);
/// Answer the handshake and hand the connection over, or refuse. The call ends here.
void ws__start(struct conn *c, struct call *r, const struct json *params);

// ---- server.c ------------------------------------------------------------------------------------

struct counts {
    uint64_t requests, by_class[6], auth_failures, bytes_out, connections, refused;
    size_t streams;
};

struct listener {
    union server__socket io;
    struct server *server;
    struct loop_task *accepting; // the connection that waits to be accepted, or NULL
    bool over_socket;
};

enum { READ_BYTES = 64 * 1024, CHUNK_MAX = 64 * 1024 * 1024 };

struct server {
    struct loop *loop;
    struct api *api;
    struct event_log *events;
    char *version, *build;          // build: NULL for none
    const struct server_page *page; // NULL for none; borrowed
    char *start_dir;                // NULL for none
    struct server_limits limits;
    struct http1_limits head_limits;
    struct listener *unix_listener, *tcp_listener;
    struct door door;
    char *socket_path;
    bool socket_inherited; // its file belongs to the program that started us
    dev_t socket_dev;
    ino_t socket_ino;
    char tcp_address[64];
    struct hosts hosts;
    struct auth *auth;
    struct router router;
    const struct server_mount *mounts[MOUNTS_MAX];
    size_t n_mounts;
    struct idem *idem;
    struct counts counts;
    struct conn *conns;
    size_t n_conns[2];   // listed in conns: over TCP, over the Unix socket
    size_t most[2];      // bounds of these; see share_descriptors()
    size_t n_strangers;  // of those over TCP
    size_t open_handles; // connections and listeners that libuv still holds
    struct call *calls;  // under way, also those whose connection is gone
    int64_t date_second; // of `date`
    char date[DATE_TEXT];
    bool closing;
    struct timer grace;
    void (*done)(void *arg);
    void *done_arg;
    struct buf chunk;          // the last chunk of events sent: most readers get the same
    size_t chunk_head;         // bytes of it before the events
    char read_buf[READ_BYTES]; // of all connections: parsed before the next read
};

const char *server__date(struct server *s);
/// Make a socket that is not open yet, counted in open_handles.
void server__socket_init(struct server *s, union server__socket *io, bool over_socket, void *data);
void server__handle_closed(struct server *s); // a handle counted in open_handles is gone
/// The listening socket for `path` that the hub was started with; -1: none. Once: the environment is cleared.
int inherit__socket(const char *path);
void listener__close(struct server *s, struct listener **listener);
