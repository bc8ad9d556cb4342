#pragma once

#include "store/shelf.h"

// Session numbers of a workspace: a file, or with a shared store a document (`sh`, shelf.h). Blocking; on any
// thread but the loop's.

/// The next session number of a workspace: above all that were ever given out there or are in its history. Never given
/// out twice, even if a process is killed. `dir` is workspace.dir and must exist.
int history_number_take(struct shelf *sh, const char *dir, uint64_t *out, struct err *e) MUST_CHECK;
/// Numbers up to `n` are used: for history that comes from elsewhere.
int history_number_raise(struct shelf *sh, const char *dir, uint64_t n, struct err *e) MUST_CHECK;
