#pragma once

#include "store/tree.h"

// What a project brings that does something once it is trusted. Each *item* is trusted by itself.

#define TRUST_KINDS(X)                                                                             \
    X(PLUGIN, "plugin")                                                                            \
    X(ENV, "env")                                                                                  \
    X(CONFIG, "config")                                                                            \
    X(SKILL, "skill")                                                                              \
    X(BOT, "bot")                                                                                  \
    X(AGENTS, "agents")                                                                            \
    X(MCP, "mcp")                                                                                  \
    X(SESSION, "session")

enum trust_kind {
#define X(id, name) TRUST_##id,
    TRUST_KINDS(X)
#undef X
        TRUST_KIND_COUNT
};

#define TRUST_ENV_PATH                                                                             \
    ".afloat/env.toml" // of the environment's item, also when it has no such file

#define TRUST_CONFIG_PATH ".afloat/config.toml"
#define TRUST_MCP_PATH    ".mcp.json" // MCP servers that the project brings

/// "plugin", "env", ...
const char *trust_kind_name(enum trust_kind kind);

/// One plugin, skill or bot, the project's settings, AGENTS.md, or the environment as a whole.
struct trust_item {
    enum trust_kind kind;
    const char *name;  // "logger" of `.afloat/plugins/logger.lua`; "env", "config", "AGENTS.md"
    const char *path;  // relative to the root; of the environment always `.afloat/env.toml`
    const char *error; // why it cannot be read, hence not trusted; NULL
    struct tree tree;  // what was hashed, empty with an error; its hash is the item's
};

struct trust_scan {
    struct arena arena;
    vec(struct trust_item) items; // by kind, then by path
};

enum { TRUST_ITEMS = 1024 }; // of one project

/// Read all items of the project at `root`: plugins of `.afloat/plugins`, `.afloat/shared/plugins` and
/// `.afloat/profiles/*/plugins`, `.afloat/config.toml`, `.afloat/skills/*`, `.afloat/bots/*`, session types of
/// `.afloat/sessions`, `.afloat/shared/sessions` and `.afloat/profiles/*/sessions`,
/// `AGENTS.md`, `.mcp.json` and the environment. Nothing is run. Blocks. An item that cannot be read is listed with
/// its error; more than TRUST_ITEMS are ERR_TOO_LARGE. The caller ends it with trust_scan_fini(), on
/// failure too.
int trust_scan(struct trust_scan *s, const char *root, struct err *e) MUST_CHECK;
/// The same for a session in `dir`, the root or below it: with the instructions for models
/// (`AGENTS.md`, `CLAUDE.md`) of every directory on the way there.
int trust_scan_in(struct trust_scan *s, const char *root, const char *dir,
                  struct err *e) MUST_CHECK;

/// Call `each` for every file of instructions in `root`, in `dir` below it or between them, from the
/// root down; `rel` is its path from the root. Ends with what `each` returned when that is not 0. Blocks.
int trust_each_instruction(const char *root, const char *dir,
                           int (*each)(void *arg, const char *rel), void *arg);
void trust_scan_fini(struct trust_scan *s);

/// Read the item at `rel` of the project whose root is the real path `root`, as the scan does; ERR_DENIED when it leads
/// out of the project. Blocks.
int trust_read_item(struct tree *t, const char *root, const char *rel, struct err *e) MUST_CHECK;

/// The entry in the book that means "a file of this provider existed when the user trusted the environment".
void trust_env_token(const char *provider, char out[SHA256_HEX]);

/// Read the environment's files: `.afloat/env.toml` with all it includes, its `script` and `dotenv`
/// files, and the files of its provider (`.envrc`, `devenv.nix`, `flake.nix`, `mise.toml`). `t->files` has
/// them, each named by its clean path relative to the root (`../x` or an absolute path outside); the
/// builder compares its files with these bytes, which were hashed. A file that is named but missing is in
/// the hash as missing, and not in `t->files`. Blocks. ERR_NOT_FOUND when the project has no environment;
/// ERR_TOO_LARGE; on failure `t` holds nothing.
int trust_env_read(struct tree *t, const char *root, struct err *e) MUST_CHECK;
