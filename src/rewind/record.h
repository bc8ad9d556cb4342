#pragma once

#include "base/vec.h"
#include "rewind/kept.h"

// The record of a session's changes, `rewind.jsonl` in its directory: a line for each turn that begins,
// and one for each call that changed files. Everything here blocks.

struct snapshot;

/// A file that a call changed.
struct rewind_change {
    const char *base, *path; // a directory, and the path beneath it
    struct kept_state before, after;
    bool open; // `after` is not known: the call never came to its end
};

typedef vec(struct rewind_change) rewind_changes;

/// The state before a turn, or before a rewind.
struct rewind_point {
    const char *turn; // of the turn or the rewind
    int64_t at;       // ms
    struct str text;  // what the user said; "rewound to ..." of a rewind
    bool dropped;     // its changes are not kept any more
    rewind_changes changes;
    vec(const char *) not_kept; // lines for people: what it changed and nobody can bring back
};

struct rewind_record {
    struct arena arena;
    vec(struct rewind_point) points; // oldest first
    uint64_t next_call;              // a number that no command has yet
    uint64_t open_call;              // a command that began and never ended; 0: none
    const char *open_turn;           // of it
};

/// Read it; no file is an empty record. Lines that are damaged are passed over. The caller ends it with
/// rewind_record_fini(), on failure too.
int rewind_record_read(struct rewind_record *r, const char *path, struct err *e) MUST_CHECK;
void rewind_record_fini(struct rewind_record *r);
/// The point of that turn, or NULL.
struct rewind_point *rewind_record_find(const struct rewind_record *r, const char *turn);
/// Append one line (JSON without its newline). A line that a kill has cut off is ended first.
int rewind_record_append(const char *path, struct str line, struct err *e) MUST_CHECK;
/// Drop the changes of the oldest points until the store has at most `max` bytes; the newest stays, and
/// so does what `now` needs.
int rewind_record_shrink(const char *path, const struct kept_store *store,
                         const struct snapshot *now, uint64_t max, struct err *e) MUST_CHECK;

/// `"base": ..., "changes": [...]` of a line, the object is open.
void rewind_write_changes(struct jw *w, const char *base, const struct rewind_change *list,
                          size_t n);
/// The changes of such a line; strings are in `a`.
void rewind_read_changes(const struct json *line, struct arena *a, rewind_changes *out);
