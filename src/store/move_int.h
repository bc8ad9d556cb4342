#pragma once

#include "base/buf.h"
#include "store/move.h"

// What the files of moving a store share.
//
//     move.c         the file between two stores: export and import
//     move_record.c  one session, whole: read, written and compared, on either side
//     move_doc.c     the documents that hubs have in common

/// A session, whole.
struct move_record {
    struct buf id, dir, meta;
    struct buf lines; // its events, as readers see them, each with its newline
    size_t n;
};

void move__record_init(struct move_record *r);
void move__record_fini(struct move_record *r);
/// Read session `id`, in files that of directory `dir`, into `r`. ERR_NOT_FOUND when nothing is there.
int move__read(struct move_record *r, const struct move_side *s, struct str id, struct str dir,
               struct err *e) MUST_CHECK;
/// Make the session, unless it is there already and the same; and read it back. ERR_CONFLICT when it differs.
int move__put(const struct move_side *to, const struct move_record *r, bool *was_there,
              struct err *e) MUST_CHECK;
/// Is what has this path, a session or a document, among what is moved?
bool move__is_meant(const struct move_side *s, struct str path);

/// Append the document without the space around it; nothing when there is none.
int move__doc_get(const struct move_side *s, const char *name, struct buf *out,
                  struct err *e) MUST_CHECK;
/// Bring a document in, and read it back. ERR_CORRUPT for a name that no document has, ERR_CONFLICT for one that
/// differs and may not be replaced.
int move__doc_take(const struct move_side *s, const char *name, struct str body,
                   struct err *e) MUST_CHECK;
/// Call `each` for every document that is meant; an answer below 0, with its error, ends the walk.
typedef int move_doc_fn(void *arg, const char *name);
int move__doc_each(const struct move_side *s, move_doc_fn *each, void *arg,
                   struct err *e) MUST_CHECK;
