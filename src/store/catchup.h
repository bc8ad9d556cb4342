#pragma once

#include "store/index.h"

/// What was met on the way: as a store_notice, with paths relative to the home. On the lane.
typedef void catchup_cb(void *arg, const struct store_notice *n);

struct catchup_stats {
    size_t sessions, changed, removed;
    uint64_t bytes_read; // of journals
};

/// Bring the index in line with the files under `home`: rows for sessions that have none, rows of
/// sessions that are gone removed, metadata read again where it was replaced, journals read from
/// their marks on. Torn ends are cut (STORE_REPAIRED); a damaged journal is told (STORE_DAMAGED) and
/// says so in its row. One transaction. No journal may be open meanwhile. Blocks.
int catchup_run(struct index *x, const char *home, catchup_cb *cb, void *arg,
                struct catchup_stats *stats, struct err *e) MUST_CHECK;

/// The same for sessions below `under` that have no row yet, or a row and no directory any more; the rest
/// is not looked at, so journals may be open. A session that cannot be read is passed over. Blocks.
int catchup_rescan(struct index *x, const char *home, const char *under,
                   struct catchup_stats *stats, struct err *e) MUST_CHECK;
