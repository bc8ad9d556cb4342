#pragma once

#include <stdatomic.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "loop/loop.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "watch/ignore.h"
#include "watch/watch.h"

// How the parts fit together is in docs/internals/watch.md.

enum {
    REST_MS = 50,       // a file without a close must be still for this long
    OPEN_REST_MS = 500, // the same while a writer has it open: it may only be slow
    CAP_MS = 100,       // a whole file waits no longer for the burst around it to end
    SCANS_MAX = 256,    // directories of one job
    LOOKS_MAX = 1024,   // files of one job
    DIRS_MAX = 1 << 18, // of one watch: links can make a small tree endless
    STRAYS_MAX = 1024,
};

// ---- seats on an inotify watch ---------------------------------------------------------------

enum seat_kind { SEAT_DIR, SEAT_ANCHOR };

/// A directory or anchor that wants the events of a watch descriptor. Several sit on one when watches overlap.
struct seat {
    struct seat *next; // others on the same descriptor
    int wd;            // -1 when not seated
    uint8_t kind;      // enum seat_kind
    uint8_t flags;     // of the directory it is part of
};

/// The newest event of a descriptor, as a number in the order of all events.
struct stray {
    int wd;
    uint64_t event;
};

/// A name on the way to a root or to a link's target. When it moves, its owner must look again.
struct anchor {
    struct seat seat;
    struct anchor *next;     // of the same owner
    struct dir *dir;         // the owner: a root or linked directory,
    struct watch_file *file; // or a linked file
    char name[];
};

// ---- the tree --------------------------------------------------------------------------------

enum dir_flag {
    DIR_QUEUED = 1,  // in watch->scans
    DIR_BUSY = 2,    // a job has it
    DIR_DEAD = 4,    // out of the tree; freed when neither of the above
    DIR_LINKED = 8,  // the root, or reached through a symlink: it has anchors
    DIR_SWEPT = 16,  // no events for it, or none to trust
    DIR_LISTED = 32, // mark of a merge
};

/// One directory of one watch. There may be very many: no path, only a name and its parent.
struct dir {
    struct seat seat;
    struct watch *watch;
    struct dir *parent;        // NULL for the root
    struct dir **dirs;         // sorted by name
    struct watch_file **files; // sorted by name
    struct anchor *anchors;    // only with DIR_LINKED
    uint32_t n_dirs, n_files;
    uint64_t dev, ino; // 0, 0 until it was read
    char name[];       // "" for the root
};

/// What stat() says that changes when a file is written.
struct watch_stamp {
    uint64_t dev, ino, size;
    int64_t mtime, ctime; // nanoseconds
};

enum file_flag {
    FILE_KNOWN = 1,   // reported as being there, with `stamp` and `hash`
    FILE_PENDING = 2, // in watch->pending
    FILE_BUSY = 4,    // a job has it
    FILE_DEAD = 8,    // out of the tree; freed when neither of the above
    FILE_LISTED = 16, // mark of a merge
    FILE_PROBE = 32,  // the name does not match: it matters only if it is a linked directory
    FILE_BLIND = 64,  // a link whose target gives no events
};

/// Why a pending file waits; the first needs the least waiting.
enum hold {
    HOLD_NONE,
    HOLD_READY,   // its writer closed it, or it was moved into place
    HOLD_SEEN,    // a scan found it different: its writer may not have finished
    HOLD_WRITING, // written or created, not closed
    HOLD_GONE,    // deleted or moved away; editors put it back at once
};

/// A name we are interested in, whether there is a file or not.
struct watch_file {
    struct dir *dir;
    struct anchor *anchors;   // only when it is a symlink
    struct watch_stamp stamp; // of what was reported
    struct watch_stamp seen;  // at the last look while it was held,
    uint64_t seen_at;         // and since when it looks so
    uint64_t due;             // may be looked at from then on
    uint64_t ready_at;        // first time whole since the last look; 0 = not yet
    uint8_t hash[SHA256_SIZE];
    uint8_t flags, hold, tries;
    char name[];
};

// ---- jobs: what a thread does for a watch ----------------------------------------------------

enum entry_kind { ENTRY_FILE, ENTRY_DIR, ENTRY_LINKED_DIR, ENTRY_DANGLING };

/// One name that a scan found.
struct watch_entry {
    const char *name;
    enum entry_kind kind;
    uint64_t ino; // of a directory
    struct watch_stamp stamp;
};

/// One directory on the way to a target, already watched when `wd` >= 0.
struct hop {
    int wd;
    const char *name;
};

enum verdict {
    LOOK_FAILED, // `rc` says why; -ENOENT for no file
    LOOK_SAME,   // the stamp is the known one
    LOOK_HELD,   // not at rest
    LOOK_DIR,
    LOOK_READ, // hash and bytes are filled in
};

/// One directory to read or one file to look at. The thread reads the first part and fills the
/// second; dir and file are only carried along.
struct errand {
    struct dir *dir;
    struct watch_file *file; // NULL: scan `dir`
    char *path;
    bool is_root; // find the way to it first
    bool linked;  // the same, from the directory that contains the link
    bool probe;   // only a directory matters
    bool check;   // no event said that it is whole
    bool known;   // `stamp` is what was reported, `seen` and `rested_ms` from the last look
    uint64_t rested_ms;
    struct watch_stamp stamp, seen;

    int rc;
    int wd;     // or a negative code
    bool blind; // events cannot be had, or not be trusted
    enum verdict verdict;
    bool is_link;
    struct watch_stamp found;
    uint8_t hash[SHA256_SIZE];
    char *bytes; // owned; NULL unless kept
    vec(struct watch_entry) entries;
    vec(struct hop) hops;
};

struct watch_job {
    struct watch *watch;
    int fd;               // inotify, or -1
    uint64_t began;       // watcher->events at that time
    atomic_bool given_up; // the watch was closed: the rest is not needed
    struct arena arena;
    vec(struct errand) errands;
};

// ---- watch and watcher -----------------------------------------------------------------------

struct watch {
    struct watcher *owner;
    struct watch *next;
    struct watch_opts opts; // its strings are these:
    char *path, *pattern, **rules;
    watch_cb *cb; // NULL once closed
    void *arg;
    uint64_t key; // of its mount, for the lane
    struct dir *root;
    size_t n_dirs, n_files, n_swept;
    vec(struct dir *) scans;
    vec(struct watch_file *) pending;
    struct timer settle; // for the next file that comes due
    struct timer sweep;
    uint64_t last_ms;      // of the newest event
    struct watch_job *job; // under way
    bool opened;           // the inventory was sent
    loop_fn *caught_up;    // called once nothing is left to report, or NULL
    void *caught_up_arg;
    struct timer patience; // calls it in any case
    struct arena arena;    // of `changes`
    vec(struct watch_change) changes;
    struct loop_task *task; // that will send `changes`
};

struct watcher {
    struct loop *loop;
    int fd; // inotify, or -1
    uv_poll_t poll;
    bool polling; // `poll` is open
    bool closed;
    size_t jobs; // under way
    struct lane *lane;
    struct watch *watches;
    struct seat **seats; // by descriptor, open addressing
    size_t n_seats, cap_seats;
    uint64_t events;          // dispatched so far
    vec(struct stray) strays; // that came while a job ran, which may be about to bring their seats
    uint64_t flooded;         // `events` when there were more strays than we remember
    struct watch_pace pace;   // of watches that name none
    watch_warn_cb *warn;
    void *warn_arg;
    bool warned;        // and not well again since
    struct err warning; // the text of it
    const char *remedy;
    struct loop_task *warn_task; // that will show it
    struct watch_stats stats;
};

// tree.c
struct dir *tree__dir_new(struct watch *w, struct dir *parent, const char *name);
/// What has that name in `d`; made when it is not there and `make` says so. NULL: there is none, or too many
/// directories are there already.
struct dir *tree__dir(struct dir *d, const char *name, bool make);
struct watch_file *tree__file(struct dir *d, const char *name, bool make);
/// Take it out of the tree; the memory goes now, or when its queue or job lets go of it.
void tree__dir_drop(struct dir *d);
void tree__file_drop(struct watch_file *f);
void tree__dir_release(struct dir *d); // after a flag was cleared: free it if it is dead
void tree__file_release(struct watch_file *f);
void tree__dir_sweep(struct dir *d, bool on);
/// Drop `d`, and what is above it, while nothing is there and nothing is expected.
void tree__dir_prune(struct dir *d);
char *tree__path(const struct dir *d, const char *name); // name may be NULL; caller frees
/// Call `fn` for every directory from `d` on, parents first. It must not change the tree.
void tree__walk(struct dir *d, void (*fn)(struct dir *d));

// notify.c
void notify__open(struct watcher *wr);
void notify__close(struct watcher *wr); // begins; ends in watcher__release()
void notify__drain(struct watcher *wr);
/// Seat `s` on what a job brought. Events that came since the job began, when `watcher->events` was
/// `began`, count for it.
void notify__seat(struct watcher *wr, struct seat *s, int wd, uint64_t began);
void notify__unseat(struct watcher *wr, struct seat *s);
/// A job brought `wd`, which is not needed any more.
void notify__unwanted(struct watcher *wr, int wd);
/// Replace the anchors of `t`'s directory or file by those that `t` found.
void notify__anchors_set(struct watcher *wr, const struct errand *t, uint64_t began);
void notify__anchors_drop(struct watcher *wr, struct anchor **list);

// settle.c
void settle__touch(struct watch_file *f, enum hold hold);
void settle__hold(struct watch_file *f, enum hold hold, uint64_t ms);
void settle__arm(struct watch *w);
/// Move the files whose time has come into `job`.
void settle__collect(struct watch *w, struct watch_job *job);

// errand.c, on a thread
enum {
    NOTIFY_SELF = IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_MASK_ADD,
    NOTIFY_PLACE = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
                   IN_MOVE_SELF | IN_ATTRIB | IN_ONLYDIR | IN_MASK_ADD,
    NOTIFY_ALL = NOTIFY_PLACE | IN_MODIFY | IN_CLOSE_WRITE | IN_EXCL_UNLINK
};
void errand__run(void *job);
bool errand__wanted(const struct watch *w, const char *path, bool is_dir);
bool errand__matches(const struct watch *w, const char *name);

// apply.c
void apply__errand(struct watch *w, struct errand *t, uint64_t began);

// watch.c
void watch__pump_all(struct watcher *wr);
void watch__queue_scan(struct dir *d);
void watch__rescan(struct watcher *wr);
void watch__degraded(struct watcher *wr, const char *path, int rc);
void watcher__release(struct watcher *wr);
