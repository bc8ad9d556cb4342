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

/// Check that `request` is in the neutral form of provider.h: ERR_INVALID names the place. Writers rely on it.
int wire_check(const struct json *request, struct err *e) MUST_CHECK;

/// The items of a message's content. A content that is a text is its own only item.
#define wire_foreach_item(it, content)                                                             \
    for (const struct json *it = wire_items(content), *it##_end = wire_items_end(content);         \
         it < it##_end; it++)
/// First item and end for wire_foreach_item().
const struct json *wire_items(const struct json *content);
const struct json *wire_items_end(const struct json *content);
/// The type of an item; WIRE_ITEM__COUNT: unknown. A plain text is WIRE_TEXT.
enum wire_item_type wire_item_type(const struct json *item);
/// The text of a WIRE_TEXT; empty for others.
struct str wire_item_text(const struct json *item);
/// The opaque block of a reasoning item; NULL when an API of another kind made it.
const struct json *wire_item_reasoning(const struct json *item, const char *kind);

/// Is the message of this role?
bool wire_is_role(const struct json *message, const char *role);
/// True when some item of the message has this type; empty texts do not count.
bool wire_has_item(const struct json *message, enum wire_item_type type);

/// Write `v` as a string: itself when it is one, else its JSON text.
void wire_write_as_text(struct jw *w, const struct json *v);
/// Write the member `arguments` of a call: its input as JSON text, "{}" when it is no object.
void wire_write_arguments(struct jw *w, const struct json *call);
/// Write `v` if it is an object, else {}.
void wire_write_object(struct jw *w, const struct json *v);
/// Does `params` hold `name`? Then ours is left out.
bool wire_param_given(const struct json *request, const char *name);
/// Write the members `model` and `stream`, with which every body begins.
void wire_write_start(struct jw *w, struct str model);
/// Write the member `tools`, unless there are none: `write` writes each.
void wire_write_tools(struct jw *w, const struct json *request,
                      void (*write)(struct jw *w, const struct json *tool));
/// Write the members `name` and `description` of a tool.
void wire_write_tool_name(struct jw *w, const struct json *tool);
/// Write all members of `params` at the end of the body; `max_tokens` gets the API's own name.
void wire_write_params(struct jw *w, const struct json *request, const char *max_tokens_name);

// ---- reading a stream -----------------------------------------------------------------------

/// One item of the answer.
struct wire_item {
    enum wire_item_type type; // TEXT, CALL or REASONING
    int64_t key;              // its number in the stream
    size_t at, n;             // TEXT: its part of the reply's text
    struct str id, name;      // CALL
    struct buf body;          // CALL: the input as JSON text; REASONING: its text so far
    struct buf seal;          // REASONING: its signature so far
    const struct json *data;  // REASONING: the block to send back; NULL: none (yet)
};

/// An error as an API reports it; any of it may be empty.
struct wire_fault {
    struct str code, type, message;
    int status;       // as of HTTP; 0: it has none
    uint64_t wait_ms; // the wait that it asks for before another try; 0: none
};

typedef void wire_delta_fn(void *arg, const struct provider_delta *d);

/// The answer as far as it has arrived. The caller's storage.
struct wire_reply {
    wire_delta_fn *on_delta;
    void *arg;
    uint64_t n;                  // of the request in its session, for ids that we give calls
    struct arena arena;          // of what the items hold
    struct arena scratch;        // of the event being read
    struct buf text;             // at most PROVIDER_TEXT_MAX
    uint64_t left_out;           // bytes of text beyond that
    vec(struct wire_item) items; // in the order in which they began
    size_t kept;                 // bytes of inputs and reasoning, bounded
    struct provider_usage usage;
    uint64_t thought;        // bytes of reasoning, for an API that counts it as output
    uint64_t said;           // bytes of text and inputs
    const char *stop_reason; // NULL: not known yet
    bool ended;              // the end marker came: nothing more follows
    bool finished;           // complete if the stream ends well: some servers send no marker
    bool failed;             // the stream reported an error: `fault`, in the arena
    struct wire_fault fault;
    vec(struct provider_tool_call) calls; // of wire_reply_finish()
};

/// Start empty; `on_delta` gets each piece. Ended with wire_reply_fini().
void wire_reply_init(struct wire_reply *r, wire_delta_fn *on_delta, void *arg);
/// Free it, and what a response borrows from it.
void wire_reply_fini(struct wire_reply *r);

/// Add text, or reasoning for the user to see. Both go to on_delta at once; text is kept too. Texts with different
/// `key` are different items.
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
/// A block of reasoning is complete: keep it as the data of `item` and pass it to on_delta. `data` is in the arena;
/// NULL is allowed: it passed the bounds.
void wire_reply_seal(struct wire_reply *r, struct wire_item *item, const char *kind,
                     const struct json *data);
/// A number of tokens; -1 when it is no sensible number.
int64_t wire_tokens(const struct json *v);
/// Where an API's usage has its counts: JSON pointers.
struct wire_usage_paths {
    const char *input, *cached, *output, *reasoning;
};
/// Read the tokens of a request; -1 for a count that is missing.
struct provider_usage wire_usage(const struct json *usage, const struct wire_usage_paths *at);
/// How an API names a reason to stop, and how we do; others are the natural end of an answer.
struct wire_reason {
    const char *theirs, *ours;
};
/// The API gave a reason to stop (empty: it did not): the answer is complete when the stream ends.
void wire_reply_stop(struct wire_reply *r, struct str reason, const struct wire_reason *rows,
                     size_t n);
/// Note an error object of the stream: {code?, type?, message?}, or a text.
void wire_reply_fail(struct wire_reply *r, const struct json *error);
/// False once the answer passed the bounds for items and bytes.
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
/// Take one event of the stream. ERR_PARSE for one that begins like an object and is not JSON, ERR_TOO_LARGE
/// past the bounds; keep-alives are ignored. `e` is not NULL.
int wire_event(const struct wire *wire, struct wire_reply *r, const struct sse_event *ev,
               struct err *e) MUST_CHECK;
