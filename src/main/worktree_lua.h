#pragma once

#include "loop/loop.h"

// The module `worktree` of Lua, joined to git/.

struct bind;
struct home;
struct worktree_lua;

/// From now on `b` makes, lists and removes worktrees. `home` and `b` are borrowed until
/// worktree_lua_close(). Never NULL: where git cannot be used, every question is answered with why.
struct worktree_lua *worktree_lua_open(struct bind *b, struct loop *l, const struct home *home);
/// What is under way is ended and answered; memory goes with the last answer. NULL is allowed.
void worktree_lua_close(struct worktree_lua *w);
