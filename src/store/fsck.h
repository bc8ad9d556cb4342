#pragma once

#include "store/index.h"

// Check what is stored, and repair it. Everything here blocks.

enum { FSCK_REPORT_MAX = 16 << 20 };

struct fsck_counts {
    size_t sessions; // looked at
    size_t found, repaired;
};

/// Check everything that is stored under `home`, and repair what can be repaired if `repair`. Needs no
/// hub and no store; the caller holds the home's lock. Only temporary files are deleted: what is replaced
/// or cut is kept beside it. `report` gets one JSON object:
///
///     {"home", "repair", "sessions", "found", "repaired",
///      "findings": [{"path", "kind", "severity", "message", "repaired"}]}
///
/// `kind` is directory, document, log, metadata, torn, damaged, leftover, empty, unreadable or index; `severity` is
/// error (something is lost, or cannot be used until it is repaired) or warning (the next start repairs it by itself).
/// An error is only returned when the check could not be finished.
int fsck_run(const char *home, bool repair, struct buf *report, struct fsck_counts *c,
             struct err *e) MUST_CHECK;

/// The same with an index that is open already. `x` may be NULL: the index is not looked at.
int fsck_with_index(struct index *x, const char *home, bool repair, struct buf *report,
                    struct fsck_counts *c, struct err *e) MUST_CHECK;
