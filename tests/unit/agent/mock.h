#pragma once

// One provider on a loopback server, and one call to it. The clock stands; where the provider waits
// for its next try it is moved by exactly as much.

#include "agent/providers.h"
#include "unit/net/web.h"

struct mock {
    struct web web;
    struct providers *service;
    struct provider_choice choice;
    struct provider_call *call;
    uint64_t asked; // requests so far
    // what came of it
    int deltas, retries, dones, fails;
    uint64_t waits[16];         // of each retry
    struct buf text, reasoning; // of all deltas since the last retry
    struct buf response; // "content stop_reason input/cached/output/reasoning", JSON as it is
    struct buf calls;    // "id name input bad\n" for each call
    uint64_t left_out;
    struct provider_error why;       // of the last retry or failure
    void (*hook)(const char *where); // "delta", "retry"
    bool forget;                     // count deltas in `told` instead of keeping them
    uint64_t told;
    bool no_retry; // ask without on_retry
};

extern struct mock mock;
extern struct test_clock now;

/// Begin with a provider of this kind whose key is "sk-secret-0123456789"; `settings` are
/// "key=value", NULL at the end, or NULL.
void mock_begin(const char *kind, web_fn *answer, const char *const *settings);
void mock_end(void);

/// Ask `request` (JSON; NULL: one that says hello) and let it run to its end.
void mock_ask(const char *request);
void mock_start(const char *request); // only begin
void mock_wait(void);                 // until done or failed, or nothing moves any more
void mock_reset(void);                // forget what came

/// The answer of a server to a request: 200 and the head of an endless chunked stream of events.
void mock_stream_head(struct web_conn *conn);
/// One chunk of it, and its end.
void mock_chunk(struct web_conn *conn, const char *p, size_t n);
void mock_stream_end(struct web_conn *conn);
/// All three.
void mock_stream(struct web_conn *conn, const char *events);
/// An answer of another kind; `headers` lines end with CR LF.
void mock_status(struct web_conn *conn, int status, const char *headers, const char *body);

/// The three formats: a whole answer with the text "Hi." in two deltas; the same, which calls tools
/// `a` with {"x":1} and `b` without input; a text and an error with the code (or type) CODE.
struct mock_format {
    const char *kind, *path, *hello, *tools, *error;
};
extern const struct mock_format mock_formats[3];
