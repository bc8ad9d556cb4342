#pragma once

#include "acp/acp.h"
#include "base/json.h"
#include "base/vec.h"
#include "loop/loop.h"
#include "loop/timer.h"
#include "net/http_client.h"
#include "net/sse.h"
#include "rpc/rpc.h"

// What the files of this folder share.
//
//     acp.c      messages: from the editor to the methods, and back
//     hub.c      calls of the hub's operations
//     session.c  the methods about sessions
//     link.c     what the editor does for tools: files, terminals, MCP servers
//     turn.c     a prompt, what its turn asks, and its end
//     prompt.c   what the editor sends as a message, as text and pictures
//     update.c   events of the hub as updates for the editor

enum { ACP_ID = 48 };

struct acp_session {
    struct acp *acp;
    char id[ACP_ID];
    char *dir;
    struct acp_request *prompt; // under way; NULL: none
    struct http_call *stream;   // of the turn; NULL: none
    struct sse_parser sse;
    char *path, *body;  // what began it
    bool tried;         // the hub was started for it
    int status;         // of the answer that the stream is
    struct buf problem; // what it says when it is not 2xx
    char turn[ACP_ID];
    char question[ACP_ID]; // that the next prompt answers; "": none
    bool cancelled;        // the editor wants the turn to end
    bool spoken;           // of the message that is being streamed, something was sent
    vec(struct acp_progress *) calls;
    // what the editor does for its tools
    char *servers;          // MCP servers of the editor, a JSON array; NULL: none
    struct http_call *link; // NULL: not connected
    struct sse_parser link_sse;
    loop_fn *link_done; // of acp__link(), until the hub is ready; NULL: none waits
    void *link_arg;
    bool link_tried; // the hub was started for it
    vec(struct acp_errand *) errands;
};

/// What a running call has printed so far.
struct acp_progress {
    char *id;
    struct buf text;
};

struct acp {
    struct acp_opts o;
    struct loop loop;
    struct http_client *http;
    char *socket; // as short as the kernel wants it
    int socket_dir;
    uv_stream_t *in, *out; // NULL: a file
    struct rpc_lines lines;
    vec(struct acp_session *) sessions;
    vec(struct acp_ask *) asks; // of the editor
    vec(struct acp_call *) calls;
    int64_t last_id;
    bool reads_files;  // the editor gives the text of files, saved or not
    bool writes_files; // and writes them
    bool terminals;    // and runs commands
    bool forms;        // and asks its user to fill in forms
    bool closed;       // the editor is gone
};

/// A request of the editor, until it is answered.
struct acp_request {
    struct acp *acp;
    struct arena arena; // of both
    const struct json *id, *params;
};

// ---- acp.c ------------------------------------------------------------------------------------

/// Answer, and free the request; `result` is JSON.
void acp__answer(struct acp_request *r, struct str result);
void acp__refuse(struct acp_request *r, int64_t code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/// A message to the editor that is being written.
struct acp_message {
    struct acp *acp;
    int64_t id; // of a question
    struct buf text;
    struct jw w;
};

/// The editor's answer: its result, or NULL when it refused. Borrowed for the call.
typedef void acp_asked(void *arg, const struct json *result);
/// Begin a question; write more members of its params into the writer, then end it. `done` is called once, also
/// with NULL when the editor is gone.
struct jw *acp__ask(struct acp_message *m, struct acp *a, const char *session, const char *method);
void acp__ask_end(struct acp_message *m, acp_asked *done, void *arg);

/// Begin a notification session/update; write the members of `update` into the writer, then end it.
struct jw *acp__update(struct acp_message *m, struct acp *a, const char *session, const char *kind);
void acp__update_end(struct acp_message *m);

/// Begin to serve on `o`, take what the editor has sent, and end: acp_run() without its streams. `a` is the caller's.
int acp__begin(struct acp *a, const struct acp_opts *o, struct err *e) MUST_CHECK;
void acp__take(struct acp *a, struct str bytes);
void acp__end(struct acp *a);

// ---- hub.c ------------------------------------------------------------------------------------

/// `v` for a 2xx answer; else NULL, and `why` says what went wrong. Borrowed for the call.
typedef void acp_called(void *arg, const struct json *v, const char *why);
/// Call an operation of the hub; `body` is JSON or empty. Starts the hub if it is gone. `done` may be NULL.
void acp__call(struct acp *a, const char *method, const char *path, struct str body,
               acp_called *done, void *arg);
/// Nothing was sent, since there is no hub: may the request be sent again? Starts one, once for each request; else
/// `*fault` says why not, in `e`.
bool acp__revive(struct acp *a, bool *tried, const struct err **fault, struct err *e);
/// Send a request whose answer may be a stream. False: the hub cannot be asked, and nothing is called back.
bool acp__send(struct acp *a, const char *method, const char *path, struct str body,
               const char *accept, const struct http_cb *cb, void *arg, struct http_call **out);
/// The client is closed: end what waits for it.
void acp__calls_end(struct acp *a);
/// Send the message or answer `body` to `path` and follow the events of the turn.
void acp__follow(struct acp_session *s, const char *path, struct str body);
void acp__unfollow(struct acp_session *s);

// ---- link.c -----------------------------------------------------------------------------------

/// Have tools of the session use the editor, if it offers anything. `done` when that is so, or cannot be had; also from
/// inside.
void acp__link(struct acp_session *s, loop_fn *done, void *arg);
/// They no longer use it. A `done` of acp__link() that still waits is called.
void acp__link_drop(struct acp_session *s);

// ---- session.c --------------------------------------------------------------------------------

/// Run a method; it owns `r`. False: there is no such method.
bool acp__method(struct acp_request *r, struct str name);
/// The session that is open here under this id; NULL: none.
struct acp_session *acp__find(const struct acp *a, struct str id);
/// The same, opened if it is not.
struct acp_session *acp__session(struct acp *a, struct str id, struct str dir);
void acp__session_free(struct acp_session *s);
/// What the editor calls a command: prompts of MCP servers go without "mcp:".
struct str acp__short_name(struct str full);

// ---- turn.c -----------------------------------------------------------------------------------

void acp__prompt(struct acp_request *r); // session/prompt
/// The editor wants the turn of a session to end.
void acp__cancel(struct acp *a, struct str session);
/// One event of the turn, or its end without one (`type` empty; `why` says what happened).
void acp__event(struct acp_session *s, struct str type, const struct json *ev);
void acp__stream_ended(struct acp_session *s, const char *why);

// ---- prompt.c ---------------------------------------------------------------------------------

/// The text of a prompt; files that it names are asked for. `done` once. `images` is a JSON array, or empty; both
/// are borrowed for the call.
typedef void acp_composed(void *arg, struct str text, struct str images);
void acp__compose(struct acp *a, const char *session, const struct json *blocks, acp_composed *done,
                  void *arg);

// ---- update.c ---------------------------------------------------------------------------------

/// Tell the editor a piece of a message, a thought or what the user said; nothing when it is empty.
void acp__say(struct acp_session *s, const char *kind, struct str text);
/// Tell the editor of an event. `past`: it is history, whose messages come whole.
void acp__tell(struct acp_session *s, struct str type, const struct json *ev, bool past);
/// Write the members of a call for updates and questions: id, title, kind, input, locations.
void acp__write_call(const struct acp_session *s, struct jw *w, struct str turn, struct str id,
                     struct str tool, const struct json *input);
/// The member `toolCallId`.
void acp__write_call_id(struct jw *w, struct str turn, struct str id);
/// Write a unified diff of one file as content of a call.
void acp__write_diff(const struct acp_session *s, struct jw *w, struct str path, struct str diff);
void acp__progress_free(struct acp_progress *p);
