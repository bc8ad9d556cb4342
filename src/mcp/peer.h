#pragma once

#include "mcp/link.h"
#include "rpc/rpc.h"

// A conversation with one server: the handshake, requests and their answers, what it tells on its own. It knows
// both eras of MCP: revisions with a handshake (2024-11-05 to 2025-11-25) and the stateless 2026-07-28. What a
// server offers is server.c's business. All functions belong to the loop thread.

struct mcp_peer;
struct mcp_request;

/// The answer, once: 0 and `result`, or a negative code and `e`. All borrowed; `r` may be freed inside.
typedef void mcp_answer_cb(struct mcp_request *r, int status, const struct json *result,
                           const struct err *e);

/// A request under way, in the caller's storage until it is answered or cancelled.
struct mcp_request {
    mcp_answer_cb *done;
    /// Its progress; NULL: not wanted.
    void (*progress)(struct mcp_request *r, struct str text);
    void *arg;
    uint64_t timeout_ms; // 0: none; progress begins it anew
    // private
    int64_t id; // 0: not under way
    uint64_t due;
};

enum mcp_list { MCP_TOOLS, MCP_PROMPTS, MCP_RESOURCES, MCP_TEMPLATES, MCP__LISTS };

struct mcp_peer_cb {
    /// The handshake is over; requests may be made.
    void (*on_ready)(void *arg);
    /// A list is another one now; with MCP_RESOURCES also MCP_TEMPLATES.
    void (*on_changed)(void *arg, enum mcp_list list);
    /// It is over, whatever it was doing. Requests were answered before. Close it.
    void (*on_end)(void *arg, const struct err *e);
    /// It asks for something (elicitation, sampling, roots): mcp_peer_answer() or mcp_peer_refuse() follows, from inside
    /// or later. NULL: such requests are refused.
    void (*on_request)(void *arg, const struct rpc_message *m);
    /// It no longer needs an answer to its request `id`. NULL: it gets one.
    void (*on_given_up)(void *arg, const struct json *id);
    /// A line of its log. NULL: lines are dropped.
    void (*on_log)(void *arg, struct str level, struct str text);
};

/// Begin. on_ready or on_end follows, never from inside. `w` and `s` are borrowed.
struct mcp_peer *mcp_peer_open(struct mcp_world *w, const struct mcp_spec *s,
                               const struct mcp_peer_cb *cb, void *arg);
/// No callback follows, also none of open requests. May be called in a callback.
void mcp_peer_close(struct mcp_peer *p);

/// Ask. `members` are those of the params, JSON text without braces; `name` is that of the tool, prompt or
/// resource. The answer may come from inside.
void mcp_peer_ask(struct mcp_peer *p, struct mcp_request *r, const char *method, struct str members,
                  struct str name);
/// Give up; `done` is not called after this. Nothing happens when it is not under way.
void mcp_peer_cancel(struct mcp_peer *p, struct mcp_request *r);

/// While `rests`, the time of a request under way does not count; then it begins anew.
void mcp_peer_rest(struct mcp_peer *p, struct mcp_request *r, bool rests);

/// Answer a request of on_request; `result` is JSON. Nothing happens when it is over.
void mcp_peer_answer(struct mcp_peer *p, const struct json *id, struct str result);
void mcp_peer_refuse(struct mcp_peer *p, const struct json *id, int64_t code, const char *why);
/// Tell it something that needs no answer, where sessions have it: not in the stateless era.
void mcp_peer_tell(struct mcp_peer *p, const char *method);

/// Since on_ready: does it offer this list, which revision was agreed on, what it calls itself and its version.
bool mcp_peer_has(const struct mcp_peer *p, enum mcp_list list);
bool mcp_peer_completes(const struct mcp_peer *p);      // does it offer completion?
const char *mcp_peer_version(const struct mcp_peer *p); // "" before
const char *mcp_peer_title(const struct mcp_peer *p);   // "" before
struct str mcp_peer_said(const struct mcp_peer *p);     // the last of its stderr
int mcp_peer_pid(const struct mcp_peer *p);             // 0: none

/// Read one text from a server; for the link, and for tests and fuzzing.
void mcp_peer_text(struct mcp_peer *p, struct str text);
/// The same conversation over a link of the caller's, which is closed with it.
struct mcp_peer *mcp_peer_over(struct loop *loop, struct mcp_link *link, uint64_t timeout_ms,
                               const struct mcp_peer_cb *cb, void *arg);
/// What such a link tells.
extern const struct mcp_link_cb mcp_peer_link_cb;

enum {
    MCP_FLOOD_N = 5000,         // unsolicited messages a second
    MCP_FLOOD_BYTES = 16 << 20, // and bytes
};
