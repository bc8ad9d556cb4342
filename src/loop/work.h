#pragma once

#include "base/str.h"
#include "loop/loop.h"

// Blocking work on threads. A lane is a queue with threads of its own: the journal's syncs, SQLite
// and files each have theirs, so that none waits for another. In a lane with several threads jobs
// also carry a key (see work_mount_key()): at most half of the threads, rounded up, but never all of
// them, serve one key at a time, so that one dead network mount cannot fill the lane.
//
// All of these functions belong to the loop thread.

struct lane;

/// Runs on a thread of the lane, with all signals blocked. It may touch only what `arg` owns.
typedef void work_fn(void *arg);
/// Runs on the loop thread, in the order in which jobs of one lane finished.
typedef void work_done(void *arg);

/// `name` is copied; `threads` is 1 to 64.
/// Threads start with the first job and end after 10 s without any, so an idle hub has none. An
/// open lane does not keep the loop alive, a job that is not done yet does.
struct lane *lane_open(struct loop *l, const char *name, unsigned threads);
/// No job may be submitted after this. Jobs waiting and running finish, their `done` is called,
/// then the lane is freed. NULL is allowed.
void lane_close(struct lane *lane);

/// Queue a job. Jobs of a lane with one thread run in order. `done` may be NULL. A key is any
/// number, 0 like the others.
void work_submit(struct lane *lane, uint64_t key, work_fn *work, work_done *done, void *arg);

/// Jobs waiting, running, or finished with their `done` not called yet; for limits and tests.
size_t lane_load(const struct lane *lane);

/// A number for the file system that the absolute `path` is on, found in the mount table without
/// touching the path itself (symbolic links are not followed). 0 when unknown.
uint64_t work_mount_key(const char *path);
