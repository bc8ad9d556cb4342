#pragma once

#include "base/json.h"
#include "base/sha256.h"
#include "base/vec.h"
#include "config/config.h"

// What the user or a project says about one MCP server: a table [mcp.NAME] of config.toml, or a member of
// `mcpServers` in a project's `.mcp.json`. Plain data, safe to read from any thread.

struct mcp_pair {
    const char *name, *value; // of a variable or a header; `${secret:NAME}` is still in it
};

/// Whose server it is: the user's, when all are NULL.
struct mcp_place {
    const char *project; // root of the project whose `.mcp.json` names it
    const char *session; // the only one that has it: a client brought it
    const char *dir;     // where it works; NULL: the project
};

struct mcp_spec {
    const char *name;
    const char *project; // as in mcp_place
    const char *session;
    const char *command;     // a program; NULL: `url`
    const char *const *args; // NULL at the end
    const char *cwd;         // absolute; NULL: the user's home directory
    const char *url;         // NULL: `command`
    struct mcp_pair *env, *headers;
    size_t n_env, n_headers;
    const char *const *tools; // those to offer, NULL at the end; NULL: all of them
    bool sandbox, enabled;
    uint64_t timeout_ms;   // of the start and of each call
    const char *error;     // why it cannot be used; NULL
    char hash[SHA256_HEX]; // of all of this: an equal one is the same server
    struct arena arena;    // of all of this
};

enum { MCP_TIMEOUT_S = 30 };

/// Read one server. `v` is its object: command, args, env, cwd or url, headers; sandbox, timeout_s, tools, enabled.
/// What is wrong with it is `error`. `place` NULL: the user's; else it is always sandboxed, and gets no
/// secrets. `more` is what else the server depends on, for its hash. Never NULL; the caller ends it with
/// mcp_spec_free().
struct mcp_spec *mcp_spec_new(const char *name, const struct mcp_place *place, const struct json *v,
                              struct str more);
/// Append what the sandbox of servers is made of: one in it starts anew when this changes.
void mcp_add_sandbox(struct buf *out, const struct config *c);
/// The same for [mcp.NAME] of the settings.
struct mcp_spec *mcp_spec_of_config(const struct config *c, const char *name);
void mcp_spec_free(struct mcp_spec *s); // NULL is allowed

typedef vec(struct mcp_spec *) mcp_specs;
/// Read the text of a `.mcp.json` and add its servers. ERR_INVALID or ERR_PARSE when it is not one.
int mcp_specs_of_file(mcp_specs *out, const struct config *c, const char *project, struct str text,
                      struct err *e) MUST_CHECK;

/// `text` with each `${secret:NAME}` replaced, for the caller to free and to wipe. ERR_NOT_FOUND names the secret
/// that is missing. `secrets` is the path of secrets.json; blocks.
int mcp_fill_secrets(const char *secrets, const char *text, char **out, struct err *e) MUST_CHECK;

/// The name under which a model calls a tool or prompt of a server: SERVER__TOOL, with `_` for each character that
/// providers refuse. A name longer than they allow is cut and ends in a part of its hash. In the arena.
struct str mcp_name(struct arena *a, const char *server, struct str tool);
