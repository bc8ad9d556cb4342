#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "gen/gen.h"
#include "hook/args.h"
#include "loop/timer.h"
#include "mcpserver/mcpserver.h"
#include "rpc/rpc.h"

// What the files of mcpserver/ share.
//
//     server/mount ─> http.c (headers, era, session) ─> post.c (one POST and its answers)
//                        │                                 └─> call.c (one request) ─> methods.c, tools.c, offers.c
//                        └─> session.c (sessions and their streams)        └─ ask.c (questions back to the client)
//     event log ─> notify.c ─> streams of sessions, and of subscriptions/listen

struct agent_tool_answer;
struct mcp_call;
struct mcp_session;
struct tool_run;

enum {
    MCP_SESSIONS = 1024,
    MCP_SESSION_MS = 30 * 60 * 1000, // without a request and without a reader
    MCP_SWEEP_MS = 60 * 1000,        // between two looks for such sessions
    MCP_KEPT_EVENTS = 256,           // of a stream, for a reader that comes back
    MCP_KEPT_BYTES = 1 << 20,
    MCP_STREAMS = 16, // complete ones that a session keeps
    MCP_CALLS = 4096, // under way
    MCP_LISTENERS = 1024,
    MCP_RESOURCE_NOT_FOUND = -32002, // before 2026-07-28
    MCP_HEADER_MISMATCH = -32020,
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
};

#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_META           "io.modelcontextprotocol/"

/// What reads a connection: the `data` of a mount_call.
struct mcp_link {
    enum { MCP_LINK_POST, MCP_LINK_STREAM, MCP_LINK_ENTERING } kind;
};

enum mcp_list { MCP_TOOLS, MCP_PROMPTS, MCP_RESOURCES, MCP_TEMPLATES, MCP__LISTS };

// ---- view.c: what clients see, by where they work -------------------------------------------------

struct mcp_view {
    char *name;    // as clients write it; NULL: the general view
    char *dir;     // the real directory; NULL: the general view
    unsigned refs; // sessions and POSTs
    uint64_t used_ms;
    // lists.c
    char *lists[MCP__LISTS];
    const struct gen *lists_gen; // only compared
    uint64_t lists_number;
    const struct config *lists_config;
    uint64_t told[MCP__LISTS]; // hashes of the lists as they were when clients were told last
    struct mcp_view *next;
};

/// The view that the request names. NULL: it is answered, or comes again when its directory is entered.
struct mcp_view *mcp_view__of(struct mcpserver *s, struct mount_call *m);
/// The peer of a request that waits is gone.
void mcp_view__gone(struct mcp_link *link);
void mcp_view__open(struct mcpserver *s);
void mcp_view__close(struct mcpserver *s);

// ---- session.c ------------------------------------------------------------------------------------

struct mcp_event {
    uint64_t number;
    char *frame;
    size_t n;
};

/// Messages to a client in order. A client that lost its connection resumes after the last event it saw.
struct mcp_stream {
    struct mcp_link link;
    struct mcp_session *session;
    uint64_t id;            // in its session; 0 is the one that GET opens
    uint64_t last, written; // events made; events that were given to a connection
    vec(struct mcp_event) kept;
    size_t kept_bytes;
    struct mount_call *m; // the reader; NULL: there is none
    bool complete;        // nothing follows
    struct mcp_stream *next;
};

/// A client of the eras with a handshake.
struct mcp_session {
    struct mcpserver *server;
    char id[33];
    struct mcp_view *view;
    size_t version; // index into mcp__versions
    struct arena arena;
    const struct json *client; // {name?, version?, capabilities}
    int level;                 // of log lines that it wants: index into mcp__levels
    struct mcp_stream own;
    struct mcp_stream *streams; // of POSTs, newest first
    uint64_t last_stream;
    int64_t last_request;  // ids of our requests
    struct map subscribed; // addresses of resources
    uint64_t used_ms;
    unsigned n_posts; // under way
    struct mcp_session *prev, *next;
};

extern const char
    *const mcp__versions[]; // newest first, without the stateless one; NULL at the end
extern const char *const mcp__levels[8];
int mcp__level(struct str name); // -1: none of that name

/// What handlers see as ctx.client: name and version of `info`, and what the client `can` (NULL: nothing). In `a`.
const struct json *mcp_session__client(struct arena *a, const struct json *info,
                                       const struct json *can);
struct mcp_session *mcp_session__new(struct mcpserver *s, struct mcp_view *view, size_t version,
                                     const struct json *params);
struct mcp_session *mcp_session__find(struct mcpserver *s, struct str id);
void mcp_session__free(struct mcp_session *x);
/// A new stream for the answers of a POST.
struct mcp_stream *mcp_session__stream(struct mcp_session *x);
/// Add a message and send it if there is a reader.
void mcp_stream__put(struct mcp_stream *st, struct str message);
/// The same, unless the reader still has to get exactly this one.
void mcp_stream__put_once(struct mcp_stream *st, struct str message);
/// Nothing follows.
void mcp_stream__complete(struct mcp_stream *st);
/// Let `m` read, after event `after` (UINT64_MAX: after what was written to any reader).
void mcp_stream__attach(struct mcp_stream *st, struct mount_call *m, uint64_t after);
/// The stream and event that a Last-Event-ID names; NULL: not known, or no longer kept.
struct mcp_stream *mcp_session__resume(struct mcp_session *x, struct str last_event_id,
                                       uint64_t *after);

// ---- post.c ---------------------------------------------------------------------------------------

/// One POST and the answers to the messages in it.
struct mcp_post {
    struct mcp_link link;
    struct mcpserver *server;
    struct mcp_session *session; // NULL: of the stateless era
    struct mcp_view *view;
    struct mount_call *m;      // NULL: the peer is gone, or a stream has it
    struct mcp_stream *stream; // with a session, once it streams
    struct arena arena;
    bool takes_stream; // the client accepts one
    bool streams;
    bool batch;
    size_t open; // requests without an answer
    int status;  // of the body, if it is one answer
    struct buf answers;
    const char *headers; // for the answer; NULL for none
};

/// Take over `m`; `session` NULL: stateless.
struct mcp_post *mcp_post__new(struct mcpserver *s, struct mcp_view *view,
                               struct mcp_session *session, struct mount_call *m);
/// One request has its answer: `message` (empty: none, it was cancelled), with an HTTP status in case it is the
/// whole body. May free the post.
void mcp_post__answer(struct mcp_post *p, int status, struct str message);
/// Send a message before the answers. False: this client does not take a stream.
bool mcp_post__send(struct mcp_post *p, struct str message);
/// The peer is gone.
void mcp_post__gone(struct mcp_post *p);

// ---- call.c ---------------------------------------------------------------------------------------

struct mcp_question {
    struct str key;
    int64_t id; // of our request
    const struct json *answer;
};

/// One request under way.
struct mcp_call {
    struct mcpserver *server;
    struct mcp_post *post; // NULL once it is answered
    struct mcp_view *view; // of its POST, while that is there
    bool modern;
    const struct mcp_method *method;
    const struct json *id, *params;
    const struct json *client;         // see hook_ctx
    const struct json *progress_token; // NULL: the client wants no progress
    int level;                         // of log lines; 8: none
    uint64_t n_progress;
    struct buf out;
    struct jw w;
    struct arena arena;
    // what runs it: one of these
    struct tool_run *run;
    struct gen *gen; // pinned while an item of it runs
    struct gen_item *item;
    struct gen_call gen_call;
    struct hook_ctx ctx;
    struct op_call op;
    bool busy;       // something still runs for it
    bool starting;   // agent_tool_run() has not returned
    bool structured; // the tool says what its structured result looks like
    struct str uri;  // of a resource
    // what it asked its client; see ask.c
    struct hook_ask *ask;
    vec(struct mcp_question) questions;
    const struct json *known;  // stateless: the answers so far
    const struct json *needed; // stateless: the questions that it ends with
    const char *missing;       // stateless: what the client cannot do
    struct loop_task *ending;
    struct mcp_call *prev, *next;
};

struct mcp_method {
    const char *name;
    bool legacy, modern;
    bool cacheable;          // stateless: its result says how long it holds
    const char *header_name; // stateless: the parameter that Mcp-Name repeats; NULL: none
    void (*run)(struct mcp_call *c);
    const char *list_key; // of a method that lists: the member of its result
    enum mcp_list list;
};
const struct mcp_method *mcp_method__find(struct str name, bool modern);

/// Begin the request `m` of `p`.
void mcp_call__start(struct mcp_post *p, const struct rpc_message *m);
/// Begin the result: write members into the open object, then mcp_call__end().
struct jw *mcp_call__begin(struct mcp_call *c);
void mcp_call__end(struct mcp_call *c);
/// Write a content block of type text.
void mcp_call__text(struct jw *w, struct str text);
/// Answer tools/call with a text, or with one that says why the tool `failed`.
void mcp_call__answer_text(struct mcp_call *c, struct str text, bool failed);
/// End with an error; `data` is a JSON text, or NULL.
void mcp_call__fail(struct mcp_call *c, int code, const char *data, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/// What ran it has ended: free the call once it is answered.
void mcp_call__idle(struct mcp_call *c);
/// The client does not want the answer: stop what runs. No answer is sent.
void mcp_call__cancel(struct mcp_call *c);
/// It is answered: stop what still runs.
void mcp_call__stop(struct mcp_call *c);
/// The request of that id that the session waits for; NULL when there is none.
struct mcp_call *mcp_call__find(struct mcp_session *x, const struct json *id);

// ---- headers.c ------------------------------------------------------------------------------------

/// Does a header, plain or as =?base64?...?=, say `value`?
bool mcp_headers__say(struct str header, struct str value);
/// Do the headers Mcp-Param-* of a tools/call say what its arguments say?
bool mcp_headers__fit(struct mcpserver *s, const struct mcp_view *v, const struct mount_call *m,
                      const struct rpc_message *msg, struct arena *a);

// ---- ask.c ----------------------------------------------------------------------------------------

extern const struct hook_caller mcp_ask__caller; // its arg is the mcp_call
/// A client answered a request of ours.
void mcp_ask__answered(struct mcp_session *x, const struct rpc_message *m);
/// Read inputResponses and requestState of a stateless request. False: it has failed.
bool mcp_ask__read(struct mcp_call *c);
void mcp_ask__drop(struct mcp_call *c);

// ---- lists.c: what clients see --------------------------------------------------------------------

/// The array of a list as JSON; borrowed until the next call.
struct str mcp_lists__text(struct mcpserver *s, struct mcp_view *v, enum mcp_list which);
void mcp_lists__free(struct mcp_view *v);
/// Is `it` of that kind, and one that clients of this view see?
bool mcp_lists__has(const struct mcpserver *s, const struct mcp_view *v, const struct gen_item *it,
                    enum gen_kind kind);

// ---- operations.c: operations as tools --------------------------------------------------------------

void mcp_operations__list(struct mcpserver *s, struct jw *w);
/// Is `name` one that is offered? Then it runs.
bool mcp_operations__run(struct mcp_call *c, struct str name);

// ---- tools.c, offers.c: methods -------------------------------------------------------------------

void mcp_tools__call(struct mcp_call *c);
void mcp_offers__get_prompt(struct mcp_call *c);
void mcp_offers__read_resource(struct mcp_call *c);
void mcp_offers__complete(struct mcp_call *c);

// ---- notify.c: lists that changed -----------------------------------------------------------------

/// A stream of subscriptions/listen, in its call.
struct mcp_listener {
    struct mcp_call *call;
    unsigned lists;          // bit per enum mcp_list; MCP_RESOURCES for templates too
    const struct json *uris; // of resources
    struct mcp_listener *prev, *next;
};
void mcp_notify__listen(struct mcp_call *c);
void mcp_notify__forget(struct mcpserver *s, struct mcp_call *c);
/// Read events exactly while there is a session or a listener.
void mcp_notify__watch(struct mcpserver *s);
/// A new view: its clients know its lists as they are now.
void mcp_notify__begin(struct mcpserver *s, struct mcp_view *v);

// ---- mcpserver.c ------------------------------------------------------------------------------------

struct mcpserver {
    struct mcpserver_opts o;
    struct server_mount mount;
    struct map by_id; // sessions
    struct mcp_session *sessions;
    size_t n_sessions;
    struct mcp_call *calls;
    size_t n_calls;
    struct mcp_listener *listeners;
    size_t n_listeners;
    struct event_reader *reader; // NULL: no session and no listener
    struct timer sweep;
    struct mcp_view all, *views; // the general one, and those of projects
    size_t n_views;
    vec(struct mcp_entering *) entering; // requests whose directory is being entered
    struct timer view_timer;
    uint8_t key[32]; // of requestState; random
};

/// Answer one HTTP request (http.c).
void mcp_http__request(void *server, struct mount_call *m);
/// Write the error `code` without an id as the whole answer.
void mcp_http__refuse_rpc(struct mount_call *m, int status, int code, const char *text);
