#pragma once

#include "bot/record.h"

// Records of runs on disk: found and read. Blocking, on any thread.

/// Called with the path and the id of each record; returns false to end the walk.
typedef bool runs_cb(void *arg, const char *path, struct str id);
/// Walk the records of `bot` (NULL: all bots) in `project` (NULL: all workspaces), in no order.
void runs_each(const char *home, const char *bot, const char *project, runs_cb *cb, void *arg);
int runs_load(struct record *out, const char *path, struct err *e) MUST_CHECK;

/// What a walk over thousands wants to know of each.
struct runs_glance {
    int64_t started_at;
    bool running;
};
/// Take it from the text of a record, without reading that as JSON: a quote within a text is written \", so
/// `"key":` is never part of one. False when it cannot be read, or is not of `repository`, a path as JSON
/// writes it with its quotes (NULL: any).
bool runs_glance(struct runs_glance *out, const char *path, const char *repository);

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
