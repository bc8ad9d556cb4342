#pragma once

#include "bot/record.h"

// An index of all records of runs, in memory: what lists and searches need of each, so that they open only the
// records they show. Blocking, on any thread.

struct runs_index;
struct runs_place; // the records of one bot in one workspace

struct runs_entry {
    const struct runs_place *place;
    char id[RECORD_ID];
    bool readable; // false: everything below is 0 and ""
    bool running;
    int64_t started_at;
    const char *repository; // as JSON, with its quotes
    uint64_t inode;
    int64_t mtime; // of its file, nanoseconds; 0: read it again
};

/// Called for each entry, which is good for the call; its `place` is good as long as the index. Returns false to end
/// the walk. It holds the lock of the index, so it must not use the index.
typedef bool runs_cb(void *arg, const struct runs_entry *r);

/// `home` is borrowed. Nothing is read before the first walk.
struct runs_index *runs_index_new(const char *home);
void runs_index_free(struct runs_index *x); // NULL is allowed

/// Walk the entries of `bot` (NULL: all bots) in `project` (NULL: all workspaces), in no order, as the records are now.
void runs_index_each(struct runs_index *x, const char *bot, const char *project, runs_cb *cb,
                     void *arg);
/// The path of the record `id` in `place`. Caller frees.
char *runs_index_path(const struct runs_place *place, const char *id);
