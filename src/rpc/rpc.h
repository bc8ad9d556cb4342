#pragma once

#include "base/json.h"

// JSON-RPC 2.0 messages: read and checked, and written. Shared by everything that speaks MCP or ACP.

/// The codes of the specification.
enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
};

enum rpc_kind {
    RPC_REQUEST,      // id, method, params
    RPC_NOTIFICATION, // method, params
    RPC_RESULT,       // id, result
    RPC_ERROR,        // id (NULL if the peer could not read ours), code, message, data
    RPC_INVALID,      // message says why; id if one could be read
};

/// One message. Everything points into the parsed text and its arena.
struct rpc_message {
    enum rpc_kind kind;
    const struct json *id;     // a string or an integer, or NULL
    struct str method;         // requests and notifications
    const struct json *params; // an object or an array, or NULL
    const struct json *result; // RPC_RESULT: never NULL
    int64_t code;              // RPC_ERROR
    struct str message;        // RPC_ERROR and RPC_INVALID
};

/// What one text holds: one message, or a batch of one or more.
struct rpc_packet {
    struct rpc_message *messages;
    size_t n;
    bool batch;
};

enum { RPC_BATCH_MAX = 100 };

/// Read one text. `text` must outlive `*out`, which lives in `a`.
/// Returns 0, also when messages in it are RPC_INVALID: each of them gets an answer of its own.
/// Returns ERR_PARSE for a text that is not JSON (answer RPC_PARSE_ERROR), and ERR_INVALID for an empty batch or
/// one above RPC_BATCH_MAX (answer RPC_INVALID_REQUEST), with `e` (may be NULL) filled in.
int rpc_parse(struct rpc_packet *out, struct arena *a, struct str text, struct err *e) MUST_CHECK;

/// Check one value that was parsed already.
struct rpc_message rpc_read(const struct json *v);

/// Same id: "1" and 1 differ.
bool rpc_same_id(const struct json *a, const struct json *b);

// ---- writing: one message is one JSON text without a newline ----------------------------------

/// Begin a request, or a notification if `id` is NULL. Write its params as one value, then call rpc_end().
void rpc_begin_request(struct jw *w, const struct json *id, const char *method);
/// Begin the answer to `id`. Write the result as one value, then call rpc_end().
void rpc_begin_result(struct jw *w, const struct json *id);
/// Begin an error; `id` is NULL (written as null) where none could be read. Write its data as one value, then
/// call rpc_end_error().
void rpc_begin_error(struct jw *w, const struct json *id, int64_t code, struct str message);
/// Complete what was begun.
void rpc_end(struct jw *w);
void rpc_end_error(struct jw *w);
/// Write a whole error without data.
void rpc_error(struct jw *w, const struct json *id, int64_t code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/// A request that has an integer as its id.
struct json rpc_int_id(int64_t id);

// ---- newline-delimited messages ----------------------------------------------------------------

/// Cuts a stream of bytes into lines; see rpc_lines_feed().
struct rpc_lines {
    struct buf in;
    size_t max;     // of one line
    size_t taken;   // bytes of `in` that were given out
    size_t scanned; // there is no newline between `taken` and this
    bool over;
};

/// Lines of more than `max` bytes are refused.
void rpc_lines_init(struct rpc_lines *l, size_t max);
/// Free what was collected.
void rpc_lines_fini(struct rpc_lines *l);
/// Take bytes as they arrive. Call rpc_lines_next() until it returns false before the next call.
void rpc_lines_feed(struct rpc_lines *l, struct str bytes);
/// Move out the next line, without its newline, CR and surrounding spaces; empty ones are passed over.
/// The line is borrowed until the next rpc_lines_feed(). False: there is no whole line.
bool rpc_lines_next(struct rpc_lines *l, struct str *line);
/// True when a line was longer than `max`: the stream cannot be read any further.
bool rpc_lines_over(const struct rpc_lines *l);
