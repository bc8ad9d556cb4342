#pragma once

#include "base/vec.h"
#include "loop/launch.h"
#include "sandbox/box.h"

// A box while it is made: its rules come in any order and are put into the launcher's at the end.

struct box_rule {
    char kind;    // as in loop/launch.h
    char *path;   // real path
    bool granted; // it must be this very directory:
    dev_t dev;
    ino_t ino;
    bool pin;   // writable as the directory around it, but not to be renamed
    bool guard; // the hub or the user's shell runs it
};

struct box {
    enum box_mode mode;
    bool network;
    char *dir;             // real path
    char *home;            // real path, or NULL when there is none
    char *tmp_dir;         // real path, or NULL
    struct grants *grants; // of this box alone; NULL: the policy brought them
    vec(struct box_rule) rules;
    vec(const char *) texts; // the same for the launcher, NULL at the end
};

// ---- rules: box_rules.c ----------------------------------------------------------------------

/// Add a rule; `path` is a real path and copied.
void box__add(struct box *b, char kind, const char *path);
/// The same for a granted directory: the launcher refuses another one in its place.
void box__add_grant(struct box *b, char kind, const struct grant *g);
/// Put the rules in order and drop those that say nothing; may be done again after adding more.
void box__settle(struct box *b);
/// Keep what leads to a protected path from being renamed. After box__settle().
void box__pin(struct box *b);
/// The innermost rule around `path`, of kind '\0' when none is. Only after box__settle().
const struct box_rule *box__find(const struct box *b, const char *path);
void box__write(struct box *b); // fill in `texts`
void box__rules_fini(struct box *b);

/// True when `path` is `dir` or beneath it.
bool box__beneath(const char *path, const char *dir);

// ---- what runs outside: box_guard.c ----------------------------------------------------------

/// Keep `path`, there or not, with all links on the way to it, from being written. After box__settle().
void box__guard(struct box *b, const char *path);

// ---- repositories: box_git.c -----------------------------------------------------------------

/// Rules that keep the repository of the writable directory `root` (a real path) as it is: .git and
/// .afloat, there or not; and for the worktree of a run what opens its quarantine.
int box__protect(struct box *b, const char *root, struct err *e) MUST_CHECK;
/// Is `path`, a real one, in what git keeps a repository in: a `.git` or a bare repository, or that itself?
bool box__in_repository(const char *path);
/// Rules that let the quarantine of the worktree `root` be read, if it has one.
void box__show_git(struct box *b, const char *root);
