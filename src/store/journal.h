#pragma once

#include "store/store.h"

// The append-only file of a session's events. Everything here blocks and belongs on lanes.
//
// Threads: one thread at a time may append or rewrite; journal_sync() and journal_read() may run
// beside it on others.

struct journal;

/// Line `seq` begins at byte `at`. The mark after the last line has its seq + 1 and the file's size.
struct journal_mark {
    uint64_t seq, at;
};
#define JOURNAL_START ((struct journal_mark){1, 0})

// ---- one line -----------------------------------------------------------------------------

enum { JOURNAL_WHY = 160 };

struct journal_line {
    uint64_t seq, at; // its number; where it begins in the file
    int64_t ts;       // 0 when it says none
    struct str text;  // without its newline
};

/// Fill in `seq` and `ts` of the line `l->text`; false when it is no event, or its checksum is wrong,
/// with `why` saying so.
bool journal_line_read(struct journal_line *l, char why[JOURNAL_WHY]);

/// Append a good line and a newline to `out`, without the checksum.
void journal_line_show(struct buf *out, struct str line);

/// Append an event of another store as such a line; nothing is checked.
void journal_line_make(struct buf *out, uint64_t seq, int64_t ts, const struct store_event *ev);

/// Encode one event as line `seq` onto `out`, which needs room for a line of STORE_LINE_MAX. Refuses
/// what is not JSON, members named `seq`, `ts`, `type` or `crc`, line breaks, types above 256 bytes and
/// lines above STORE_LINE_MAX; `out` is as before then.
int journal_encode(struct buf *out, uint64_t seq, int64_t ts, const struct store_event *ev,
                   struct err *e) MUST_CHECK;

/// What stands for an event that is lost.
#define JOURNAL_LOST ((struct store_event){STR("journal.repaired"), STR("\"lost\":true")})

// ---- looking at a file --------------------------------------------------------------------

struct journal_scan {
    struct journal_mark end; // after the last good line
    int64_t last_ts;         // of that line, 0 when none was read or it says none
    uint64_t size;           // of the file; above end.at when its end is torn
    uint64_t bytes_read;     //
    bool damaged;            // good lines follow a bad one
    uint64_t bad;            // number of the first bad line; 0 when there is none
    uint64_t lost;           // numbers before `end` that no good line has
    uint64_t left_out;       // events whose number does not fit
    char why[JOURNAL_WHY];   // what is wrong with the first bad line; empty when none
};

/// Called for each good line, in order; the numbers between two calls are lost. False stops the scan.
typedef bool journal_line_cb(void *arg, const struct journal_line *l);

/// Read the journal `fd` from `from` on and check every line. Faults of the file are in `out`;
/// only a failed read is an error. `cb` may be NULL.
int journal_scan(int fd, struct journal_mark from, struct journal_scan *out, journal_line_cb *cb,
                 void *arg, struct err *e) MUST_CHECK;
/// The same up to the byte `upto`.
int journal__scan(int fd, struct journal_mark from, uint64_t upto, struct journal_scan *out,
                  journal_line_cb *cb, void *arg, struct err *e) MUST_CHECK;

/// What was found when a journal was opened, and done to a torn end.
struct journal_repair {
    uint64_t bytes_cut; // 0: nothing was
    uint64_t last_seq;
    char kept[40];    // name of the file beside it that holds the bytes
    char damage[240]; // what is damaged in front of good lines; empty: nothing
};

/// Cut a torn end, as found by a scan, keeping the bytes in `<path>.torn-<time>`; nothing is cut
/// before that file is synced. A file that is not torn is left alone.
int journal_cut(int fd, const char *path, const struct journal_scan *scan, struct journal_repair *r,
                struct err *e) MUST_CHECK;

// ---- an open journal ----------------------------------------------------------------------

/// Open `path`, creating it when missing. `from` is a mark that is known to be right, so that only
/// the part after it is read; one that does not fit the file counts as JOURNAL_START. A torn end is
/// cut. Damage in front of good lines stays as it is, and reading skips it. `r` (may be NULL) tells of
/// both. Everything in the file is synced before this returns.
int journal_open(struct journal **out, const char *path, struct journal_mark from,
                 struct journal_repair *r, struct err *e) MUST_CHECK;
/// Close the file without syncing and free it. NULL is allowed.
void journal_close(struct journal *j);

/// The mark after its last event.
struct journal_mark journal_end(struct journal *j);
/// The time of the last event that journal_open() read; 0: it read none, or that says none.
int64_t journal_last_ts(struct journal *j);
/// Which file it is.
void journal_file(const struct journal *j, uint64_t *dev, uint64_t *ino);

/// Append `n` encoded lines, the first being journal_end().seq: all or nothing. After a failure the
/// file is cut back to what it was; where even that fails, the next write does it first.
int journal_write(struct journal *j, struct str lines, size_t n, struct err *e) MUST_CHECK;

/// Everything written before the call is on the disk when this returns 0. After a failure the kernel
/// may have dropped what it could not write and say yes the next time: call journal_rewrite().
int journal_sync(struct journal *j, struct err *e) MUST_CHECK;

/// Write everything after `synced` once more, unchanged, so that the next journal_sync() can be relied on.
/// ERR_CORRUPT when it can no longer be read back whole.
int journal_rewrite(struct journal *j, struct journal_mark synced, struct err *e) MUST_CHECK;

/// Append events with a `seq` above `after` to `out`, a line each, without checksums: up to `limit` of them,
/// and no further one once there are `max` bytes. `*n` is how many. An event that can no longer be read is
/// replaced by JOURNAL_LOST, so numbers have no holes; journal_damage() then says so.
int journal_read(struct journal *j, uint64_t after, size_t limit, size_t max, struct buf *out,
                 size_t *n, struct err *e) MUST_CHECK;

/// What a reader found damaged; true once, the first time that there is something.
bool journal_damage(struct journal *j, char out[JOURNAL_WHY]);

/// Bytes read from the disk by this journal so far, for tests and figures.
uint64_t journal_bytes_read(struct journal *j);
