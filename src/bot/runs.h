#pragma once

#include "bot/record.h"

// Records of runs on disk: found and read. Blocking, on any thread.

/// Called with the path and the id of each record; returns false to end the walk.
typedef bool runs_cb(void *arg, const char *path, struct str id);
/// Walk the records of `bot` (NULL: all bots) in `project` (NULL: all workspaces), in no order.
void runs_each(const char *home, const char *bot, const char *project, runs_cb *cb, void *arg);
int runs_load(struct record *out, const char *path, struct err *e) MUST_CHECK;

/// The run whose id is `id` or, alone, begins so. ERR_NOT_FOUND, ERR_CONFLICT. `bot` as above. `out` is to
/// be ended in any case, here and below.
int runs_find(struct record *out, const char *home, const char *bot, struct str id,
              struct err *e) MUST_CHECK;
/// The same, and sessions of runs count too.
int runs_find_any(struct record *out, const char *home, const char *bot, struct str id,
                  struct err *e) MUST_CHECK;
/// The run of `bot` in `project` that started last.
int runs_find_last(struct record *out, const char *home, const char *bot, const char *project,
                   struct err *e) MUST_CHECK;
