#pragma once

// A loopback web server on the test's own loop, and one call to it. The server reads whole requests
// and hands them to the test, which answers byte by byte if it likes.

#include "base/buf.h"
#include "net/http_client.h"
#include "unit/loop.h"

struct web;

/// One connection to the server.
struct web_conn {
    uv_tcp_t tcp;
    struct web *web;
    struct web_conn *next;
    struct buf in;
    struct buf body; // of the request being answered
};

/// Called with each complete request: its head, and its body in conn->body.
typedef void web_fn(struct web_conn *conn, const char *head);

struct web {
    uv_tcp_t tcp;
    web_fn *answer;
    bool deaf;            // accepts and never reads
    const char *greeting; // said to whoever connects; NULL: nothing
    int port;
    int accepts, requests, closes;
    struct web_conn *conns; // open ones
    struct web_conn *last;  // that sent a request; NULL once it closed
    struct buf head;        // of the last request
};

/// Loop, client and name look-ups. A test that hangs is killed after 30 s.
extern struct loop l;
extern struct http_client *client;
void web_begin(const struct loop_clock *clock);
void web_end(void); // closes the client, if still open, and runs the loop until nothing is left

void web_open(struct web *w, web_fn *answer);
void web_close(struct web *w);

void web_say(struct web_conn *conn, const char *text);
void web_say_bytes(struct web_conn *conn, const char *p, size_t n);
void web_hang_up(struct web_conn *conn);              // after what was said
void web_reset(struct web_conn *conn);                // at once, rudely
void web_ok(struct web_conn *conn, const char *head); // 200, "hello"
void web_silent(struct web_conn *conn, const char *head);
const char *web_url(const struct web *w, const char *path); // in a ring of static buffers
bool web_header(const char *head, const char *line);        // has it that header line

/// One call and what came of it.
struct fetch {
    struct http_call *call;
    int heads, bodies, dones;
    int status;
    int rc;
    struct err e;
    struct buf head; // "name=value\n" for each header
    struct buf body;
    size_t most;                                      // bytes in one on_body
    void (*hook)(struct fetch *f, const char *where); // "head", "body", "done"
    struct http_client *on;                           // the client it is sent on
};

extern const struct http_cb fetch_collect, fetch_stream;
void fetch_begin(struct fetch *f, const struct http_request *q, const struct http_cb *cb);
void fetch_wait(struct fetch *f);                                                    // until done
void fetch(struct fetch *f, const struct http_request *q, const struct http_cb *cb); // both
void fetch_end(struct fetch *f);

/// Names ending in ".test" never leave the process: "missing.test" has no address, "slow.test" waits
/// for web_dns_release(), all others are 127.0.0.1.
void web_dns_release(void);
void web_dns_await(void); // until a look-up of slow.test has begun
