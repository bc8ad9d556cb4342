#pragma once

#include "base/vec.h"
#include "rewind/kept.h"

// The record of a session's changes, `rewind.jsonl` in its directory: one line for each turn that begins and one for each
// call that changed files. Everything here blocks.

struct snapshot;

/// A file that a call changed.
struct rewind_change {
    const char *base, *path; // a directory, and the path below it
    struct kept_state before, after;
    bool open; // `after` is not known: the call did not end
};

typedef vec(struct rewind_change) rewind_changes;

/// The state before a turn, or before a rewind.
struct rewind_point {
    const char *turn; // of the turn or the rewind
    int64_t at;       // ms
    struct str text;  // what the user said; "rewound to ..." of a rewind
    bool dropped;     // its changes are no longer kept
    rewind_changes changes;
    vec(const char *) not_kept; // lines for the user: changes that cannot be undone
};

struct rewind_record {
    struct arena arena;
    vec(struct rewind_point) points; // oldest first
    uint64_t next_call;              // the number for the next command
    uint64_t open_call;              // a command that began and did not end; 0: none
    const char *open_turn;           // the turn of `open_call`
};

/// Read the record; a missing file is an empty one. Damaged lines are skipped. The caller ends it with
/// rewind_record_fini(), also after a failure.
int rewind_record_read(struct rewind_record *r, const char *path, struct err *e) MUST_CHECK;
void rewind_record_fini(struct rewind_record *r);
/// The point of that turn, or NULL.
struct rewind_point *rewind_record_find(const struct rewind_record *r, const char *turn);
/// Append one line (JSON, without the newline). If the last line was cut off by a crash, it is ended first.
int rewind_record_append(const char *path, struct str line, struct err *e) MUST_CHECK;
/// Drop the changes of the oldest points until the store has at most `max` bytes. The newest point stays, and so do the
/// contents that `now` needs.
int rewind_record_shrink(const char *path, const struct kept_store *store,
                         const struct snapshot *now, uint64_t max, struct err *e) MUST_CHECK;

/// Write the members `base` and `changes` of a line into the open object.
void rewind_write_changes(struct jw *w, const char *base, const struct rewind_change *list,
                          size_t n);
/// Append the changes of such a line to `out`; strings are in `a`.
void rewind_read_changes(const struct json *line, struct arena *a, rewind_changes *out);
