#pragma once

#include "base/err.h"

// Session numbers of a workspace. Blocking; on any thread and in any process.

/// The next session number of a workspace: above all that were ever given out there or lie in its history.
/// Never given twice, whoever is killed when. `dir` is workspace.dir and must exist.
int history_number_take(const char *dir, uint64_t *out, struct err *e) MUST_CHECK;
/// Numbers up to `n` are used: for history that comes from elsewhere.
int history_number_raise(const char *dir, uint64_t n, struct err *e) MUST_CHECK;
