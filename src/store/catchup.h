#pragma once

#include "store/index.h"

/// Called on the lane for damage that was found or repaired; paths are relative to the home.
typedef void catchup_cb(void *arg, const struct store_notice *n);

/// Tell `cb` (may be NULL) of the journal in the directory `dir`; the paths are filled in here.
void catchup_tell(catchup_cb *cb, void *arg, const char *dir, const struct store_notice *n);
/// Tell that a torn end was cut, if it was.
void catchup_tell_cut(catchup_cb *cb, void *arg, const char *dir, const struct journal_repair *r);

struct catchup_stats {
    size_t sessions, changed, removed;
    uint64_t bytes_read; // of journals
};

/// Bring the index in line with the files under `home`: add rows for new sessions, remove those of
/// sessions that are gone, read metadata that was replaced, read journals from their marks on. Torn
/// ends are cut (STORE_REPAIRED); a damaged journal is reported (STORE_DAMAGED) and noted in its row.
/// One transaction. No journal may be open meanwhile. Blocks.
int catchup_run(struct index *x, const char *home, catchup_cb *cb, void *arg,
                struct catchup_stats *stats, struct err *e) MUST_CHECK;

/// The same for sessions below `under` that have no row yet, or a row but no directory any more; all
/// others stay as they are, so journals may be open. A session that cannot be read is skipped. Blocks.
int catchup_rescan(struct index *x, const char *home, const char *under,
                   struct catchup_stats *stats, struct err *e) MUST_CHECK;
