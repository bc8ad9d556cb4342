#pragma once

#include "agent/provider.h"

// The server's side of the Responses API: read a client's request into the neutral form of provider.h, and write an
// answer as the API's events. wire_responses.c is the client's side. No sockets and no clocks here.

// ---- reading a request ----------------------------------------------------------------------

struct responses_request {
    const struct json *request; // in the neutral form
    const struct json *tools;   // the client's `tools`, for the calls that go back
    uint64_t n;                 // the number of the request in its conversation, from 1
    bool stream;
};

/// Read `body` for a provider of `kind`, which decides the names of parameters. The result is in `a` and borrows from
/// `body`. ERR_INVALID when it cannot be translated; `*param` then names the member, or is NULL.
int responses_read(struct responses_request *out, struct arena *a, const struct json *body,
                   const char *kind, const char **param, struct err *e) MUST_CHECK;

// ---- writing an answer ----------------------------------------------------------------------

enum responses_open { RESPONSES_NONE, RESPONSES_TEXT, RESPONSES_REASONING };

/// The answer as far as it is written. The caller's storage; the first part is the caller's to set.
struct responses_writer {
    struct buf *out;          // events are appended to it; NULL: they are not written
    const char *id;           // borrowed, as are the next three
    const char *model;        // as the client named it
    const struct json *tools; // of responses_request; NULL: every call is a function's
    const struct json *body;  // the request, of which the answer repeats parts; NULL: none
    int64_t created_s;
    bool brief; // write only what wire_responses.c reads: no text twice, so none is kept
    // private
    int64_t seq, index;       // of the next event and item
    enum responses_open open; // the item under way
    struct buf text;          // its text
    struct buf items;         // the complete ones, JSON joined by commas
    bool cut;                 // the answer is longer than what is kept
};

/// Write the opening events.
void responses_begin(struct responses_writer *w);
/// Write a piece. If `sealed` is a text, it is the seal itself.
void responses_delta(struct responses_writer *w, const struct provider_delta *d);
/// Write a call of a tool. `arguments` is what the model wrote.
void responses_call(struct responses_writer *w, struct str id, struct str name,
                    struct str arguments);
/// End with the calls of the answer and its usage.
void responses_done(struct responses_writer *w, const struct provider_response *r);
/// The last part of responses_done(), for a caller that has no response: end the open item, write the usage.
void responses_complete(struct responses_writer *w, const struct provider_usage *usage,
                        const char *incomplete);
/// End with an error.
void responses_fail(struct responses_writer *w, const struct provider_error *why);
void responses_fini(struct responses_writer *w);

/// Write the response object. `status`: in_progress, completed, incomplete or failed; `incomplete`, `usage` and
/// `why` may be NULL.
void responses_write_object(struct responses_writer *w, struct jw *jw, const char *status,
                            const struct provider_usage *usage, const char *incomplete,
                            const struct provider_error *why);
/// Why an answer that stopped for `stop_reason` is not complete; NULL when it is.
const char *responses_incomplete(const char *stop_reason);

// ---- errors ---------------------------------------------------------------------------------

/// A fault in the terms of the API.
struct responses_error {
    int status;              // of HTTP
    const char *type, *code; // "invalid_request_error", "context_length_exceeded"
};
/// A provider's failure in the terms of the API. Its texts are constants.
struct responses_error responses_error_of(const struct provider_error *why);
/// Write {"error": {message, type, param, code}}. `param` and `code` may be NULL.
void responses_write_error(struct buf *out, struct str message, const char *type, const char *param,
                           const char *code);
