#pragma once

// A loop, a watcher and one watch on a directory of the test's own, and what it reported.

#include "base/vec.h"
#include "unit/loop.h"
#include "watch/watch.h"

struct seen {
    char *path; // relative to the watched directory
    enum watch_kind kind;
    char *text; // NULL when deleted
};

struct rig {
    struct loop loop;
    struct test_clock
        clock; // of rig_open_by_hand(), moves with rig_tick() and while something is awaited
    bool by_hand;
    struct watcher *watcher;
    struct watch *watch;
    char dir[300]; // absolute, of the test; the watched one unless opts said otherwise
    char root[320];
    vec(struct seen) seen; // not yet expected
    size_t batches, changes, warnings;
    char warning[300], remedy[200];
    bool ready; // the inventory came
};

/// Open; `o` may be NULL. o->path is relative to the test's directory. Recursive and with bytes
/// unless `o` is given. Runs until the inventory is there.
void rig_open(struct rig *r, const struct watch_opts *o);
/// The same with a clock that stands still while anything else takes its time: programs that save, and us.
void rig_open_by_hand(struct rig *r, const struct watch_opts *o);
/// Take in what happened, let `ms` pass on that clock, and judge what came due.
void rig_tick(struct rig *r, unsigned ms);
void rig_close(struct rig *r); // and fail if anything is left open

/// Files relative to the test's directory.
void rig_write(struct rig *r, const char *name, const char *text);
void rig_mkdir(struct rig *r, const char *name);
char *rig_path(struct rig *r, const char *name); // a static one of four
/// Run a shell command there, with the loop running meanwhile; it must succeed.
void rig_sh(struct rig *r, const char *command);

/// Run until `name` (relative to the watched directory) was reported, and check how.
void rig_expect(struct rig *r, const char *name, enum watch_kind kind, const char *text);
/// Save another file, wait until it is reported: what happened before it has been judged.
void rig_sentinel(struct rig *r);
/// Fail when something was reported that nobody expected.
void rig_expect_nothing_else(struct rig *r);
/// True when the newest report of `name` that nobody expected says `text`.
bool rig_has(struct rig *r, const char *name, const char *text);
/// Run the loop until `done(r)`, ms by ms on a clock that is moved by hand.
void rig_until(struct rig *r, bool (*done)(struct rig *r));
/// Run the loop until nothing waits: no job, no timer, no task.
void rig_settle(struct rig *r);
bool program_exists(const char *name);
