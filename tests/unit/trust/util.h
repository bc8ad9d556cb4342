#pragma once

#include "trust/trust.h"
#include "unit/test.h"

// Files of a test's own directory. Paths are relative to it; results are borrowed until the next few
// calls.

const char *at(const char *rel);             // absolute
void put(const char *rel, const char *text); // with its directories
void put_dir(const char *rel);
void put_link(const char *rel, const char *target);
struct buf get(const char *rel); // buf_fini() is due

/// A repository `name` with `.git/`, and a worktree of it at `tree` as `git worktree add` makes it.
void put_repo(const char *name);
void put_worktree(const char *name, const char *tree, const char *id);

/// The place of `rel`; the home is "home".
struct trust_place place(const char *rel);
