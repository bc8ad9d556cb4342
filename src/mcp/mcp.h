#pragma once

#include "config/config.h"
#include "config/hub_parts.h"
#include "gen/engine.h"

// The MCP servers whose tools sessions have: those of [mcp.NAME] in config.toml, those of `.mcp.json` in a
// trusted project while a session works in it, and those that an editor brings for its session. Each is a unit
// `mcp:NAME` of the generation; its tools are items NAME__tool. See docs/internals/mcp-client.md. All functions
// belong to the loop thread.

struct mcp;
struct http_client;
struct watcher;

/// Borrowed until mcp_free(), `engine` until it is closed.
struct mcp_opts {
    const struct hub_parts *hub;
    struct gen_engine *engine;
    struct http_client *http;
    struct watcher *watcher;
    /// Call `plugin` with every path from which the hub loads a plugin of the user's.
    void (*plugins)(void *arg, void (*plugin)(void *to, const char *path), void *to);
    void *arg;
};

/// Become a source of the engine, before its first request. Nothing is started yet. Never NULL.
struct mcp *mcp_open(const struct mcp_opts *o);
/// Nothing new begins, and waiting for servers ends; those that serve continue. Before gen_close(). NULL is
/// allowed, and so is a second call.
void mcp_stop(struct mcp *m);
/// The engine is closed.
void mcp_close(struct mcp *m);
void mcp_free(struct mcp *m); // when the loop has ended; NULL is allowed

/// Add what is wrong with the servers of the settings.
void mcp_check_settings(const struct config *c, struct config_diags *d);

// ---- for sessions ---------------------------------------------------------------------------

enum mcp_reach { MCP_FOREIGN, MCP_NOT_HERE, MCP_HERE };
/// Does a unit reach `session` ("": none) in `dir`? MCP_FOREIGN: it is no server.
enum mcp_reach mcp_reach(const struct mcp *m, const struct gen_unit *u, const char *session,
                         const char *dir);

/// A session works in the real directory `dir`. `done` (not from inside) when every server that reaches it has started
/// or failed once, or was waited for long enough; never longer than its `timeout_s`.
void mcp_enter(struct mcp *m, const char *dir, loop_fn *done, void *arg);
/// A session has left `dir`.
void mcp_leave(struct mcp *m, const char *dir);

/// The servers that a client brings for `session`, which works in the real directory `dir`, in place of those before:
/// [{name, command, args, env: [{name, value}]} or {name, url, headers: [{name, value}]}, ...]. NULL: no servers;
/// then `dir` may be NULL, too. `done` (may be NULL) as with mcp_enter().
void mcp_lend(struct mcp *m, const char *session, const char *dir, const struct json *servers,
              loop_fn *done, void *arg);

// ---- for operations -------------------------------------------------------------------------

/// The rows `{name, state, tools, error, ...}` into an open array.
void mcp_write(const struct mcp *m, struct jw *w);
/// One row, with each tool's description and what the server wrote to stderr. False: there is none of that name.
bool mcp_write_one(const struct mcp *m, struct str name, struct jw *w);

/// The text of a resource, or the words of mcp_complete(); NULL: `e` says why. Borrowed for the call.
typedef void mcp_read_cb(void *arg, const struct json *text, const struct err *e);
/// Read a resource of a server. `cb` once, also from inside. False: there is no server of that name.
bool mcp_read(struct mcp *m, struct str name, struct str uri, mcp_read_cb *cb, void *arg);

/// What is being typed: a command, by our name of its prompt, the words before (an array; NULL: none) and the one at the
/// cursor; or, without a prompt, the address of a resource.
struct mcp_typed {
    struct str prompt, word, uri;
    const struct json *words;
};
/// Ask the server which words may stand at the cursor, or how the address may continue up to the next variable of its
/// template: an array, empty where it has nothing to say. As mcp_read().
bool mcp_complete(struct mcp *m, struct str name, const struct mcp_typed *typed, mcp_read_cb *cb,
                  void *arg);

/// The members of an answer, JSON text without braces; `ok`: the server works. NULL text: the hub stops.
typedef void mcp_test_cb(void *arg, bool ok, const char *members);
/// Start the server anew beside the one that serves, ask for its lists, and end it. False: there is none of that name.
bool mcp_test(struct mcp *m, struct str name, mcp_test_cb *cb, void *arg);
