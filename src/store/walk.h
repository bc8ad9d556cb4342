#pragma once

#include "base/err.h"
#include "base/str.h"

/// Called for each session directory, relative to the home. A negative code ends the walk.
typedef int walk_cb(void *arg, const char *dir, struct str id);

/// Find every directory under `home` that may hold a session's files: sessions/<id> and
/// bots/<bot>/workspaces/<slug>/history/<id> whose name may be an id; sorted by name at each
/// level. A directory that does not exist is skipped; one that cannot be listed is an error. Blocks.
int walk_sessions(const char *home, walk_cb *cb, void *arg, struct err *e) MUST_CHECK;

/// True for a directory of one of the two forms, whose last part is `id`.
bool walk_dir_valid(struct str dir, struct str id);

/// Sync a directory: the names in it survive a power cut. Blocks.
int walk_sync_dir(const char *dir, struct err *e) MUST_CHECK;
