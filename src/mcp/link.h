#pragma once

#include "loop/loop.h"
#include "mcp/spec.h"
#include "trust/guard.h"

// The way to a server: messages as texts, over the pipes of a process or over HTTP. What the messages say is
// peer.c's business. All functions belong to the loop thread.

struct http_client;
struct lane;

struct mcp_link;

/// What a message is, beside its text.
struct mcp_about {
    int64_t id;         // of a request; 0: a notification or an answer
    const char *method; // NULL: an answer
    struct str name;    // of the tool, prompt or resource; may be empty
};

struct mcp_link_cb {
    /// One text from the server, which may be anything. The link may be closed inside.
    void (*on_text)(void *arg, struct str text);
    /// The request `id` gets no answer.
    void (*on_lost)(void *arg, int64_t id, const struct err *e);
    /// Is the request `id` still without its answer?
    bool (*is_open)(void *arg, int64_t id);
    /// The link has ended: nothing more comes. Once; close it.
    void (*on_end)(void *arg, const struct err *e);
};

struct mcp_link_ops {
    void (*send)(struct mcp_link *l, struct str text, const struct mcp_about *about);
    /// The answer to `id` is no longer needed. NULL: nothing to do.
    void (*forget)(struct mcp_link *l, int64_t id);
    /// The handshake is over. `modern`: without sessions. NULL: nothing to do.
    void (*agreed)(struct mcp_link *l, const char *version, bool modern);
    /// No callback follows; what it uses ends later.
    void (*close)(struct mcp_link *l);
    /// The last that the server wrote to stderr. NULL: there is none.
    struct str (*said)(struct mcp_link *l);
    int (*pid)(struct mcp_link *l); // NULL: no process of ours
};

struct mcp_link {
    const struct mcp_link_ops *ops;
};

/// What links need of the hub; borrowed until they are closed, `lane` until nothing of it runs.
struct mcp_world {
    struct loop *loop;
    struct lane *lane; // for files: boxes, secrets
    struct http_client *http;
    const struct home *home;
    struct config_live *config;
    struct trust_outside (*outside)(void *arg, struct arena *a); // see trust_list_outside()
    void *arg;
    vec(struct mcp_link *) renewing; // those that wait for a token, closed or not
};

/// `http` is about to close: stop waiting for tokens.
void mcp_link_http_stop(struct mcp_world *w);

enum {
    MCP_LINE_MAX = 16 << 20, // bytes of one message
};

/// Start the server's program. Problems are told by on_end, never from inside. `w` and `s` are borrowed.
struct mcp_link *mcp_link_stdio(struct mcp_world *w, const struct mcp_spec *s,
                                const struct mcp_link_cb *cb, void *arg);
/// Talk to the server at its address.
struct mcp_link *mcp_link_http(struct mcp_world *w, const struct mcp_spec *s,
                               const struct mcp_link_cb *cb, void *arg);
