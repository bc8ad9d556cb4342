#pragma once

#include "base/vec.h"
#include "loop/launch.h"
#include "sandbox/box.h"

// A box under way: its rules in any order, put into the launcher's at the end.

struct box {
    enum box_mode mode;
    bool network;
    char *dir;               // real path
    char *home;              // real path, or NULL when there is none
    char *tmp_dir;           // real path, or NULL
    vec(const char *) rules; // letter and path each; NULL at the end once sorted
};

/// Add a rule; `path` is a real path and copied.
void box__add(struct box *b, char kind, const char *path);

/// Rules that keep the repository of the writable directory `root` (a real path) as it is: .git and
/// .afloat, there or not, and for a linked worktree what git has to write, one by one.
int box__protect(struct box *b, const char *root, struct err *e) MUST_CHECK;
