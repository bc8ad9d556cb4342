#pragma once

#include "bot/config.h"
#include "store/tree.h"
#include "trust/trust.h"

// Which bots there are: the user's in `$AFLOAT_HOME/bots/<bot>/`, and those that a trusted project
// brings in `.afloat/bots/<bot>/`. The user's win by name.
//
//     on a lane: catalog_read ──> on the loop: catalog_judge (asks trust) ──> catalog_find
//
// A project's bot is read as a whole, hashed, and used from memory: what was trusted is what runs.

enum bot_origin { BOT_OF_USER, BOT_OF_PROJECT };

/// "user" or "project".
const char *bot_origin_name(enum bot_origin o);

struct catalog_bot {
    const char *name;
    enum bot_origin origin;
    const char *dir;          // absolute
    const char *file;         // absolute path of its config.md
    int status;               // of reading config.md: 0, or a negative code and `err`
    struct err err;           // "PATH:LINE:COLUMN: ..."
    struct bot_config config; // the defaults when status < 0
    struct config_diags diags;
    // of a project's, for trust
    const char *path; // relative to the root; NULL for a user's
    struct tree tree; // empty for a user's
};

/// The caller's storage; all texts are in the arena.
struct catalog {
    struct arena arena;
    struct trust_place place;            // root NULL: no project
    vec(struct catalog_bot *) list;      // by name
    vec(struct catalog_bot *) untrusted; // after catalog_judge(): what the project brings besides
};

/// Read the bots that count in `dir` (NULL: no project). `only` (NULL: all) names the one that is wanted; if it does not
/// exist, all are read, so that catalog_find() can name the nearest. A bot that cannot be read is listed with its error.
/// Blocks; on any thread. ERR_INVALID for a bad `only`; `c` is to be ended in any case.
int catalog_read(struct catalog *c, const char *home, const char *dir, const char *only,
                 struct err *e) MUST_CHECK;
/// Take out what is not trusted, and the project's bots whose names the user's have. On the loop thread.
void catalog_judge(struct catalog *c, const struct trust *t);
void catalog_fini(struct catalog *c);

/// The bot of that name. ERR_NOT_FOUND with the nearest name; ERR_DENIED for a project's that is not
/// trusted, with the command that trusts it. `*out` is then NULL, and valid until catalog_fini() else;
/// one whose config.md is broken is found, with its `status`.
int catalog_find(const struct catalog *c, struct str name, struct catalog_bot **out,
                 struct err *e) MUST_CHECK;

// ---- changing the user's, blocking, on any thread ---------------------------------------------------

/// Make `bots/<bot>/config.md`, with comments that explain every key. `description` and `instructions`
/// may be empty. ERR_INVALID for a bad name; ERR_CONFLICT when there is one: nothing is overwritten.
int catalog_create(const char *home, const char *name, struct str description,
                   struct str instructions, struct err *e) MUST_CHECK;

/// Change `bots/<bot>/config.md` by rename: `keys` and `instructions` as in bot_config_edit(), either may
/// be missing (NULL, p NULL). The result is read before it is written: what config.md may not say is
/// ERR_INVALID, a key that it does not know too, and nothing is changed. ERR_NOT_FOUND; ERR_PARSE when the
/// file is broken as it is; ERR_UNSUPPORTED where only a person can do it.
int catalog_patch(const char *home, const char *name, const struct json *keys,
                  struct str instructions, struct err *e) MUST_CHECK;

/// Move the bot to `trash/`: config.md and skills/, its workspaces stay; with `history` everything.
/// None of its runs may be going on; after `history` store_rescan() of "bots/<bot>/" forgets its sessions.
/// ERR_NOT_FOUND. `*where` is the directory in the trash; caller frees, NULL on failure.
int catalog_delete(const char *home, const char *name, bool history, char **where,
                   struct err *e) MUST_CHECK;
