#pragma once

#include "store/tree.h"

// Plugin versions kept by content: `state/versions/<sha256>/`, the files as they were. Written beside
// and renamed into place, so that a version is there whole or not at all; checked against its hash when
// it is read back. Blocking: for workers.

/// Keep `t` under `dir` (`$AFLOAT_HOME/state/versions`, made when missing). One that is there already
/// is left alone.
int versions_put(const char *dir, const struct tree *t, struct err *e) MUST_CHECK;
/// Read a version back. ERR_NOT_FOUND; ERR_CORRUPT when its files are not what the hash says.
int versions_get(struct tree *t, const char *dir, const char *hash, struct err *e) MUST_CHECK;
/// Remove every version whose hash `keep` refuses; returns how many went, or a negative code.
int versions_prune(const char *dir, bool (*keep)(const char *hash, void *arg), void *arg,
                   struct err *e);
