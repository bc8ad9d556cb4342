#pragma once

#include <limits.h>

#include "base/arena.h"
#include "config/config.h"

// What `config.md` of a bot says: TOML between `+++` lines, then instructions in Markdown.
//
//     defaults  <  config.md (bot_config_parse)  <  flags of the run (bot_config_apply)
//
// Plain memory, every function on any thread; none touches a file.

enum { BOT_CONFIG_BYTES = 1 << 20 };

/// How a finished run may reach the user's branch.
#define BOT_MERGES(X)                                                                              \
    X(ASK, "ask")                                                                                  \
    X(AUTO, "auto")                                                                                \
    X(NEVER, "never")
enum bot_merge {
#define X(id, name) BOT_MERGE_##id,
    BOT_MERGES(X)
#undef X
};

/// A list of strings, in the arena; `p` is NULL only where the key was not given.
struct bot_names {
    const char *const *p;
    size_t n;
};

enum { BOT_UNSET = INT_MIN }; // no valid value of any setting

/// All texts are in the arena.
struct bot_config {
    struct arena arena;
    const char *description;  // "" when there is none
    const char *instructions; // never empty: a default text where the file has none
    int64_t max_iterations;   // 0: no limit; BOT_UNSET until bot_config_apply()
    int64_t sleep_secs;
    const char *model, *provider; // NULL: the hub's
    const char *engine;           // "native", or who else runs its turns
    const char *sandbox;          // NULL: the hub's; else "read-only", "workspace-write" or
                                  // "danger-full-access"
    int network;                  // 0, 1 or BOT_UNSET: the hub's
    bool skip_git_check;
    bool worktree;
    enum bot_merge merge;
    struct bot_names plugins; // p NULL: all
    const char *stop_phrase;  // NULL: none
    // [worktree]
    struct bot_names include; // ignored files that are copied, relative to the root
    struct bot_names link;    // that are linked
    struct bot_names setup;   // commands, each for `sh -c`, run in order in the new worktree
    const char *remote;       // where work is pushed after every step; NULL: nowhere
};

/// The defaults. The caller ends it with bot_config_fini().
void bot_config_init(struct bot_config *c);
/// Free what it holds.
void bot_config_fini(struct bot_config *c);

/// Read a whole config.md into `c`, which holds the defaults. Problems go to `d` with lines and columns
/// of the file; `path` is what they call it. Unknown keys are warnings with the nearest known name.
/// Returns 0, or ERR_PARSE with `e` reading "PATH:LINE:COLUMN: ..." for the first error; `c` then holds
/// the defaults and must be ended all the same.
int bot_config_parse(struct bot_config *c, struct str text, const char *path,
                     struct config_diags *d, struct err *e) MUST_CHECK;

/// What a run asks for. `{0}` with the three numbers BOT_UNSET (BOT_OVERRIDES) asks for nothing.
struct bot_overrides {
    int64_t max_iterations, sleep_secs;
    int network;
    const char *model, *provider, *engine, *sandbox, *instructions; // NULL: not given
    bool merge;                                                     // --merge: "auto"
    bool skip_git_check, no_worktree;
    bool has_prompt; // without a number of its own it means one iteration, else ten
};
#define BOT_OVERRIDES                                                                              \
    {                                                                                              \
        .max_iterations = BOT_UNSET, .sleep_secs = BOT_UNSET, .network = BOT_UNSET                 \
    }

/// Let `o` win over `c`; texts are copied. ERR_INVALID for a value that config.md could not hold
/// either; `c` is then as it was.
int bot_config_apply(struct bot_config *c, const struct bot_overrides *o, struct err *e) MUST_CHECK;

/// True for `^[a-z][a-z0-9_-]{0,63}$`.
bool bot_name_valid(struct str name);
/// The same with a message that says so: ERR_INVALID.
int bot_name_check(struct str name, struct err *e) MUST_CHECK;

/// Write `{description, instructions, max_iterations, ..., worktree {enabled, include, link, setup,
/// remote}}`
/// as the members of an object that is open. A max_iterations that is not set is null.
void bot_config_write(const struct bot_config *c, struct jw *w);
