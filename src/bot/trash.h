#pragma once

#include "base/err.h"

// `$AFLOAT_HOME/trash/`: what was deleted and can be taken back by hand. Blocks; on any thread.

/// Make an empty directory `trash/<time>-<name>`; `*where` is its path, caller frees, NULL on failure.
int trash_room(const char *home, const char *name, char **where, struct err *e) MUST_CHECK;
/// Move `path` there as a whole, by one rename; `*where` is what it is now. ERR_NOT_FOUND when another
/// deletion was faster.
int trash_move(const char *home, const char *name, const char *path, char **where,
               struct err *e) MUST_CHECK;
