#pragma once

#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "store/shelf.h"

// Take over the home of an openbot: bots with config.md, skills, memory and history (directories, and the
// single files of old versions). Nothing that is there is overwritten, so a second import adds only what is
// new. What cannot be taken is told and does not stop the rest. Blocks, long: on a lane, or in a command.

#define IMPORT_OUTCOMES(X)                                                                         \
    X(TAKEN, "taken")                                                                              \
    X(KEPT, "kept")     /* it is there already; ours stays */                                      \
    X(WARNED, "warned") /* taken, and something about it should be looked at */                    \
    X(FAILED, "failed") /* `message` says why */
enum import_outcome {
#define X(id, name) IMPORT_##id,
    IMPORT_OUTCOMES(X)
#undef X
        IMPORT_OUTCOME_COUNT
};

/// What became of one thing.
struct import_item {
    enum import_outcome outcome;
    const char *kind; // "bot", "skill", "memory" or "session"; a constant
    char *name;       // "reviewer", "reviewer/api/<id>"
    char *message;    // NULL: nothing to say
};

/// The caller's storage; all zeros is an empty report. Sessions that were kept are counted, not listed.
struct import_report {
    vec(struct import_item) items;
    size_t counts[IMPORT_OUTCOME_COUNT];
};
/// Free what it holds.
void import_report_fini(struct import_report *r);

/// Import the openbot home `from` into `home`. Fails only when `from` is none (ERR_NOT_FOUND) or another
/// import runs (ERR_TIMEOUT). Afterwards store_rescan() of "bots/" makes the sessions known to a store.
/// Memory, history and skills of one file go to `sh` (shelf.h), all else into files. With `as` (may be NULL) its one bot gets that name; ERR_INVALID when it has more or fewer.
int import_openbot(struct import_report *r, struct shelf *sh, const char *home, const char *from,
                   const char *as, struct err *e) MUST_CHECK;

/// `{taken, kept, warned, failed, items: [{outcome, kind, name, message?}]}`
void import_write(const struct import_report *r, struct jw *w);
