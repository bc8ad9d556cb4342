#pragma once

#include "base/json.h"
#include "event/event.h"
#include "proto/ops.h"
#include "proto/problems.h"

// How an operation is called, whatever face it comes through: HTTP (server/), Lua (bind/ops.c). The face
// checks parameters against the table, fills in an op_call and calls op_run(); the handler answers
// exactly once, now or later, with one of the op_answer functions or op_fail().

struct api; // everything handlers work on; see api/api.h
struct op_call;

/// What a face does with an answer; texts are borrowed for the call. `stream` may be NULL where
/// `wants_stream` is never set.
struct op_face {
    void (*answer)(struct op_call *c, int status, const char *content_type, struct str body);
    void (*fail)(struct op_call *c, enum problem p, struct str detail, const char *hint);
    void (*stream)(struct op_call *c, const struct event_filter *f, uint64_t after);
};

struct op_call {
    struct api *api; // set by op_run()
    enum op_id id;
    const struct json *params; // object; names and types are checked, path and query included
    struct arena *arena;       // lives until the answer
    bool over_socket;          // the caller is this user, over the Unix socket
    bool wants_stream;         // OP_STREAMS, OP_MAY_STREAM: the caller accepts server-sent events
    uint64_t last_event_id;    // of the Last-Event-ID header; UINT64_MAX when there was none
    const char *turn;     // of a repeated request: the turn that the first one began and streamed
    uint64_t turn_after;  // and the event after which that stream began
    const char *location; // set by a handler that answers 201
    const struct op_face *face;
    bool answered;
    struct buf out; // of op_begin()
    struct jw w;    // onto `out`
};

typedef void op_fn(struct api *api, struct op_call *c);

/// Run the handler of `c->id`. `c` must stay until it is answered.
void op_run(struct api *api, struct op_call *c);

/// Begin a JSON answer: write one value with what this returns, then op_end(), which sends it. Nothing may fail
/// in between.
struct jw *op_begin(struct op_call *c);
void op_end(struct op_call *c, int status);
/// The same for an answer that is an object, which they open and close.
struct jw *op_begin_obj(struct op_call *c);
void op_end_obj(struct op_call *c, int status);
/// Answer with a JSON text, borrowed for the call.
void op_answer(struct op_call *c, int status, struct str json);
void op_answer_text(struct op_call *c, const char *content_type, struct str text);
/// Answer with a problem; the detail is cut to 1 KiB. `hint` may be NULL.
void op_fail(struct op_call *c, enum problem p, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/// Answer with the events that a reader of the hub's log gets; `f` is borrowed for the call.
void op_answer_stream(struct op_call *c, const struct event_filter *f, uint64_t after);

struct op_fault {
    enum problem problem;
    char detail[200];
    char hint[120];
};
/// Check `params` (an object, or NULL for none) against the operation's row: types, missing and
/// unknown names, what `by` may not set. Returns true, or false with the problem, its text and a hint filled in.
bool op_check_params(enum op_id id, enum op_caller by, const struct json *params,
                     struct op_fault *fault);
