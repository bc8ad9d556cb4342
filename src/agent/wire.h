#pragma once

#include "agent/provider.h"
#include "base/vec.h"
#include "net/sse.h"

// The wire formats: how a request is written for an API, and how its stream of events is read.
// Nothing here knows of sockets, clocks or retries; each format is one file, wire_<format>.c.

// ---- writing a request ----------------------------------------------------------------------

enum wire_item_type {
    WIRE_TEXT,
    WIRE_CALL,
    WIRE_RESULT,
    WIRE_REASONING,
    WIRE_IMAGE, // of a user: `url`, "data:MEDIA_TYPE;base64,..." or an address
    WIRE_ITEM__COUNT,
};

/// ERR_INVALID, naming the place, unless `request` is in the neutral form of provider.h. Writers
/// rely on it.
int wire_check(const struct json *request, struct err *e) MUST_CHECK;

/// The items of a message's content, which may be a text: then it is the only item itself.
#define wire_foreach_item(it, content)                                                             \
    for (const struct json *it = wire_items(content), *it##_end = wire_items_end(content);         \
         it < it##_end; it++)
/// First item and end for wire_foreach_item().
const struct json *wire_items(const struct json *content);
const struct json *wire_items_end(const struct json *content);
/// WIRE_ITEM__COUNT: of no known type. A plain text is WIRE_TEXT.
enum wire_item_type wire_item_type(const struct json *item);
/// The text of a WIRE_TEXT; empty for others.
struct str wire_item_text(const struct json *item);
/// The opaque block of a reasoning item that `kind` made; NULL for another's.
const struct json *wire_item_reasoning(const struct json *item, const char *kind);

/// Is the message of this role?
bool wire_is_role(const struct json *message, const char *role);
/// True when some item of the message has this type; empty texts do not count.
bool wire_has_item(const struct json *message, enum wire_item_type type);

/// Write `v` as a string: itself when it is one, else its JSON text.
void wire_write_as_text(struct jw *w, const struct json *v);
/// Write the member `arguments` of a call, whose input is to be a text: "{}" when it is no object.
void wire_write_arguments(struct jw *w, const struct json *call);
/// Write `v` if it is an object, else {}.
void wire_write_object(struct jw *w, const struct json *v);
/// Whether `params` holds `name`, so that ours is left out.
bool wire_param_given(const struct json *request, const char *name);
/// Write all members of `params` at the end of the body, `max_tokens` under the API's own name.
void wire_write_params(struct jw *w, const struct json *request, const char *max_tokens_name);

// ---- reading a stream -----------------------------------------------------------------------

/// One item of the answer.
struct wire_item {
    enum wire_item_type type; // TEXT, CALL or REASONING
    int64_t key;              // how the stream calls it
    size_t at, n;             // TEXT: its part of the reply's text
    struct str id, name;      // CALL
    struct buf body;          // CALL: the input as JSON text; REASONING: its text so far
    struct buf seal;          // REASONING: its signature so far
    const struct json *data;  // REASONING: the block to send back; NULL: none (yet)
};

/// What an API says went wrong, as it names it; any of it may be empty.
struct wire_fault {
    struct str code, type, message;
    uint64_t wait_ms; // before another try; 0: it does not say
};

typedef void wire_delta_fn(void *arg, const struct provider_delta *d);

/// The answer as far as it has arrived. The caller's storage.
struct wire_reply {
    wire_delta_fn *on_delta;
    void *arg;
    struct arena arena;          // of what the items hold
    struct arena scratch;        // of the event being read
    struct buf text;             // at most PROVIDER_TEXT_MAX
    uint64_t left_out;           // bytes of text beyond that
    vec(struct wire_item) items; // in the order in which they began
    size_t kept;                 // bytes of inputs and reasoning, bounded
    struct provider_usage usage;
    uint64_t thought;        // bytes of reasoning, for an API that counts it as output
    uint64_t said;           // bytes of text and inputs
    const char *stop_reason; // NULL: not said yet
    bool ended;              // the end marker was there: nothing more is to come
    bool finished;           // complete, if the stream ends well: some leave the marker out
    bool failed;             // the stream carries an error: `fault`, in the arena
    struct wire_fault fault;
    vec(struct provider_tool_call) calls; // of wire_reply_finish()
};

/// Start empty; `on_delta` is told of each piece. Ended with wire_reply_fini().
void wire_reply_init(struct wire_reply *r, wire_delta_fn *on_delta, void *arg);
/// Free it, and what a response borrows from it.
void wire_reply_fini(struct wire_reply *r);

/// Text, or reasoning for people to see: told at once, text is kept too. `key` tells apart texts
/// that are different items.
void wire_reply_text(struct wire_reply *r, int64_t key, struct str text);
void wire_reply_reasoning(struct wire_reply *r, struct str text);
/// A new item. The pointer is good until the next one.
struct wire_item *wire_reply_add(struct wire_reply *r, enum wire_item_type type, int64_t key);
/// The last item of that type and key, or NULL.
struct wire_item *wire_reply_find(struct wire_reply *r, enum wire_item_type type, int64_t key);
/// Copy into the arena, counted.
struct str wire_reply_keep(struct wire_reply *r, struct str s);
const struct json *wire_reply_keep_json(struct wire_reply *r, const struct json *v);
/// Append to `b`, which is an item's, counted.
void wire_reply_append(struct wire_reply *r, struct buf *b, struct str s);
/// A block of reasoning is complete: keep it as the data of `item` and tell it. `data` is in the arena; NULL, when
/// it passed the bounds, is allowed.
void wire_reply_seal(struct wire_reply *r, struct wire_item *item, const char *kind,
                     const struct json *data);
/// A number of tokens; -1 when it is none.
int64_t wire_tokens(const struct json *v);
/// Note an error object of the stream: {code?, type?, message?}, or a text.
void wire_reply_fail(struct wire_reply *r, const struct json *error);
/// False once an answer passed the bounds: more items or bytes than any model means.
bool wire_reply_fits(const struct wire_reply *r);

/// What to do with an event of that `type`.
struct wire_event {
    const char *type;
    void (*take)(struct wire_reply *r, const struct json *event);
};
/// Hand `event` to the row of its type; false when there is none.
bool wire_reply_dispatch(struct wire_reply *r, const struct json *event,
                         const struct wire_event *rows, size_t n);

/// Turn a complete reply into a response, which borrows from it.
void wire_reply_finish(struct wire_reply *r, const char *kind, struct provider_response *out);

// ---- the formats ----------------------------------------------------------------------------

struct wire {
    const char *kind;
    bool done_marker; // the stream ends with `data: [DONE]`
    /// Write the body; the object is open, and is left open.
    void (*write)(struct jw *w, const struct json *request, struct str model);
    /// Read the JSON of one event.
    void (*event)(struct wire_reply *r, const struct json *event);
};

extern const struct wire wire_responses, wire_chat, wire_anthropic;

/// The body of a request that passed wire_check().
void wire_write(const struct wire *wire, struct buf *out, const struct json *request,
                struct str model);
/// Take one event of the stream. ERR_PARSE for one that is not JSON although it looks it, and
/// ERR_TOO_LARGE past the bounds; what is neither (keep-alives) is ignored. `e` is not NULL.
int wire_event(const struct wire *wire, struct wire_reply *r, const struct sse_event *ev,
               struct err *e) MUST_CHECK;
