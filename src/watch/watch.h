#pragma once

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "loop/loop.h"

// Report which files below a directory really changed, once per burst, when they are whole.
//
// A watcher is one per loop: one inotify descriptor, and threads for all that can block. A watch is
// one tree (or one directory) with a pattern. All functions and callbacks belong to the loop thread.

struct watcher;
struct watch;

/// The watcher works, but slower than it should, and the user can fix it.
struct watch_warning {
    const char *code;    // "WATCH_DEGRADED"
    const char *message; // what happened, to which path, what it means
    const char *remedy;  // what to do about it
};

struct watch_pace {
    unsigned debounce_ms; // quiet time that ends a burst
    unsigned poll_ms;     // between sweeps where events cannot be had or trusted
    bool poll;            // sweep everything, use no events
};

/// Called at most once until everything is well again. `w` is borrowed for the call, which may open
/// and close watches.
typedef void watch_warn_cb(const struct watch_warning *w, void *arg);

/// Open the loop's watcher. `warn` may be NULL. When the kernel gives no inotify descriptor, the
/// watcher sweeps instead and warns. Never NULL; the caller ends it with watcher_close().
struct watcher *watcher_open(struct loop *l, watch_warn_cb *warn, void *arg);
/// Set the pace of watches that are opened from now on and name none; 0: 5 and 2000 ms.
void watcher_set_pace(struct watcher *wr, const struct watch_pace *p);

/// Close with all watches on it: none calls back after this returns. Memory and descriptor go when
/// the threads are done. NULL is allowed.
void watcher_close(struct watcher *wr);

enum watch_kind { WATCH_CREATED, WATCH_CHANGED, WATCH_DELETED };
/// "created", "changed", "deleted".
const char *watch_kind_name(enum watch_kind kind);

/// One file whose bytes are others than before.
struct watch_change {
    const char *path; // the watch's path, then the way down; never a link's target
    enum watch_kind kind;
    uint64_t size;
    int64_t ctime_ns; // when the file became what it is: of two reports the larger is the newer
    uint8_t hash[SHA256_SIZE]; // of the whole file; zeros when deleted or above WATCH_HASH_MAX
    struct str bytes;          // what was hashed; p is NULL unless asked for and within the limit
};

struct watch_batch {
    const struct watch_change *changes; // no path twice, in no order
    size_t n;
    bool first; // the inventory: all that was there at the start, as WATCH_CREATED; n may be 0
};

/// All of `batch` is borrowed for the call. It may close `w` and open others.
typedef void watch_cb(struct watch *w, const struct watch_batch *batch, void *arg);

enum {
    WATCH_HASH_MAX = 64 * 1024 * 1024, // larger files count as changed when size or times do
};

struct watch_opts {
    const char *path;    // absolute; it need not exist yet, and may be or lead through a symlink
    const char *pattern; // of file names, `*` stands for any run; NULL = all. One file = its name
    bool recursive;      // directories below too, linked ones included
    /// NULL-terminated rules, see watch/ignore.h; NULL = watch_ignore_default. What is ignored is
    /// neither watched nor read.
    const char *const *ignore;
    bool want_bytes;        // keep what was hashed, so that what is acted on is what was hashed
    size_t bytes_max;       // of one file; larger ones come without bytes
    struct watch_pace pace; // 0 and false: the watcher's
};

/// Begin to watch. `o` and its strings are copied, `arg` is borrowed until watch_close(). The
/// first batch is the inventory, and comes even when it is empty or the path does not exist; after
/// it no change is lost, and none is reported that left the bytes as they were (touch, chmod, the
/// same text written again). A deleted directory is the deletion of its files.
int watch_open(struct watch **out, struct watcher *wr, const struct watch_opts *o, watch_cb *cb,
               void *arg, struct err *e) MUST_CHECK;

/// End it; no callback runs after this returns. Allowed inside its own callback. NULL is allowed.
void watch_close(struct watch *w);

/// Call `done` when all that was saved before this call has been reported, in `patience_ms` at the latest: what is
/// still being written then comes later. One at a time.
void watch_catch_up(struct watch *w, unsigned patience_ms, loop_fn *done, void *arg);

struct watch_stats {
    size_t watches;  // struct watch
    size_t dirs;     // of all of them
    size_t files;    // known and matching
    size_t native;   // inotify watches held
    size_t swept;    // directories that are swept
    uint64_t scans;  // directories read so far
    uint64_t reads;  // files read and hashed so far
    uint64_t floods; // queue overflows so far
};
/// What is being watched now, for status and tests.
struct watch_stats watcher_stats(const struct watcher *wr);
