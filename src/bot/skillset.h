#pragma once

#include "agent/skills.h"
#include "bot/catalog.h"
#include "store/shelf.h"

// The skills of a bot: its own first, then the user's in `$AFLOAT_HOME/skills`, then those of the trusted
// project. The first of a name wins.
//
// With a shared store (`sh`, shelf.h) those that were saved there come before files of the same place: they are the
// same on every hub. Files that a user put there by hand stay on their machine.
//
//     on a lane: skillset_read ──> on the loop: skillset_judge (asks trust)

#define SKILL_ORIGINS(X)                                                                           \
    X(BOT, "bot")                                                                                  \
    X(USER, "user")                                                                                \
    X(PROJECT, "project")                                                                          \
    X(SHIPPED, "shipped")
enum skill_origin {
#define X(id, name) SKILL_OF_##id,
    SKILL_ORIGINS(X)
#undef X
};
/// The word for it in lists.
const char *skill_origin_name(enum skill_origin o);

struct skillset_item {
    enum skill_origin origin;
    const struct skill *skill;
};

/// The caller's storage; all texts are in `skills`.
struct skillset {
    struct skills skills;           // all that was read; its `faults` are those that are none
    vec(struct skillset_item) list; // after skillset_judge(): those that count, by name
    size_t untrusted;               // of the project's
    // private
    struct skills shipped;
    size_t n_bot, n_user; // where in `skills` the next place begins
    struct trust_place place;
};

/// Read all skills for `bot` (NULL: those of no bot) that count in `dir` (NULL: no project).
/// Blocks; on any thread.
void skillset_read(struct skillset *s, struct shelf *sh, const char *home,
                   const struct catalog_bot *bot, const char *dir);
/// Take out what is not trusted and what has the name of another. On the loop thread.
void skillset_judge(struct skillset *s, const struct trust *t);
/// Add those that come with the program, for lists; sessions have them by themselves. After skillset_judge().
void skillset_add_shipped(struct skillset *s);
void skillset_fini(struct skillset *s);
const struct skillset_item *skillset_find(const struct skillset *s, struct str name); // NULL: none

// ---- changing them, blocking, on any thread ------------------------------------------------------------

struct skillset_new {
    struct str name; // ^[a-z0-9][a-z0-9_-]{0,63}$
    struct str description, body;
};

/// ERR_INVALID for a name that a skill cannot have.
int skillset_name_check(struct str name, struct err *e) MUST_CHECK;
/// Write `bots/<bot>/skills/<name>.md`, or `skills/<name>.md` with `bot` NULL, whole; one that is there
/// is replaced and goes to `trash/`. ERR_INVALID for a bad name, an empty body, or text that is not UTF-8;
/// ERR_TOO_LARGE.
int skillset_save(struct shelf *sh, const char *home, const char *bot, const struct skillset_new *n,
                  struct err *e) MUST_CHECK;
/// Move it to `trash/`, NAME.md or NAME/. ERR_NOT_FOUND.
int skillset_remove(struct shelf *sh, const char *home, const char *bot, struct str name,
                    struct err *e) MUST_CHECK;
