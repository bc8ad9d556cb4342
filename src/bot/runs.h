#pragma once

#include "bot/runs_index.h"

// Records of runs on disk: found and read. Blocking, on any thread.

/// Read the record at `path` into `out`, which is initialised. ERR_NOT_FOUND, ERR_PARSE.
int runs_load(struct record *out, const char *path, struct err *e) MUST_CHECK;

/// The run whose id is `id` or, alone, begins so. ERR_NOT_FOUND, ERR_CONFLICT. `bot` as in runs_index_each(). `out` is to
/// be ended in any case, here and below.
int runs_find(struct record *out, struct runs_index *x, const char *bot, struct str id,
              struct err *e) MUST_CHECK;
/// The same, and sessions of runs count too.
int runs_find_any(struct record *out, struct runs_index *x, const char *bot, struct str id,
                  struct err *e) MUST_CHECK;
/// The run of `bot` in `project` that started last.
int runs_find_last(struct record *out, struct runs_index *x, const char *bot, const char *project,
                   struct err *e) MUST_CHECK;
