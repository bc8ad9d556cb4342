#pragma once

#include "base/arena.h"
#include "store/journal.h"
#include "store/store.h"

// The SQLite index of all sessions. Everything here blocks and belongs to one thread at a time.
// It holds nothing of its own: every column is made from metadata.json and events.jsonl.

struct index;

/// What the index says about one session.
struct index_row {
    struct store_row row;
    struct journal_mark mark; // in the journal: all before it is synced and counted in `row`
    uint64_t dev, ino;        // of events.jsonl when the mark was made
    uint64_t meta_ino;        // of metadata.json as it was read: a rename changes it
    int64_t meta_mtime;       // nanoseconds
};

enum { INDEX_WHY = 160, INDEX_SCHEMA = 2 };

/// Open or create the index at `path`. `*fresh` is true when it is new and has to be filled.
/// A damaged file is set aside as `<path>.damaged-<time>` and counts as new, with `why` saying what was
/// wrong. A newer schema, and a file system on which SQLite cannot work, are errors with the way out in `e`.
int index_open(struct index **out, const char *path, bool *fresh, char why[INDEX_WHY],
               struct err *e) MUST_CHECK;
/// The same for a file that exists, and a damaged one is ERR_CORRUPT and left where it is.
int index_open_as_is(struct index **out, const char *path, struct err *e) MUST_CHECK;
/// The version of SQLite.
const char *index_sqlite(void);
/// Close and free it, outside of a transaction. NULL is allowed.
void index_close(struct index *x);

/// All changes between the two are one transaction. A failed index_commit() has rolled it back.
/// A nested pair belongs to the outer one.
int index_begin(struct index *x, struct err *e) MUST_CHECK;
int index_commit(struct index *x, struct err *e) MUST_CHECK;

/// Insert a row, or replace the one of its id.
int index_put(struct index *x, const struct index_row *r, struct err *e) MUST_CHECK;
/// Change of metadata only.
int index_put_meta(struct index *x, const struct index_row *r, struct err *e) MUST_CHECK;
/// How far the journal has come; `r` has the id, last_seq, updated_at, mark, dev, ino.
int index_put_progress(struct index *x, const struct index_row *r, struct err *e) MUST_CHECK;
/// Remove the row of `id`, if there is one; remove all.
int index_remove(struct index *x, struct str id, struct err *e) MUST_CHECK;
int index_clear(struct index *x, struct err *e) MUST_CHECK;

/// The row of `id`, its strings copied into `a`. ERR_NOT_FOUND when there is none.
int index_get(struct index *x, struct str id, struct index_row *out, struct arena *a,
              struct err *e) MUST_CHECK;

/// A page as store_list() gives it. `rows` and `next` live in `a`.
int index_list(struct index *x, const struct store_filter *f, struct str cursor, size_t limit,
               struct store_rows *out, struct arena *a, struct err *e) MUST_CHECK;

/// Every row in order of id; `cb` returns a negative code to stop.
int index_each(struct index *x, int (*cb)(void *arg, const struct index_row *r), void *arg,
               struct err *e) MUST_CHECK;

/// Fill what a row takes from metadata: started_at, state, title (parsed from `meta`, strings in
/// `a`) and kind, from `dir`. Text that is not a JSON object gives empty columns.
void index_row_from_meta(struct index_row *r, struct str id, struct str dir, struct str meta,
                         struct arena *a);

/// True for a file system type (statfs) that SQLite's locks or shared memory do not work on;
/// `*name` is what people call it.
bool index_fs_refused(uint64_t magic, const char **name);
