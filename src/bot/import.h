#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

// Take over the home of an openbot: bots with config.md, skills, memory and history (directories, and the
// single files of old versions). Nothing that is there is overwritten, so a second import adds only what is
// new. What cannot be taken is told and does not stop the rest. Blocks, long: on a lane; any process.

/// What became of one thing.
enum import_outcome {
    IMPORT_TAKEN,
    IMPORT_KEPT,   // it is there already; ours stays
    IMPORT_FAILED, // `message` says why
    IMPORT_WARNED, // taken, and something about it should be looked at
};

struct import_item {
    enum import_outcome outcome;
    const char *kind;    // "bot", "skill", "memory", "session"
    char *name;          // "reviewer", "reviewer/api/<id>"
    char *message;       // NULL: nothing to say
    char *session, *dir; // of a session that was taken: its id and directory, relative to the home;
                         // store_adopt() makes it known
};

/// The caller's storage.
struct import_report {
    vec(struct import_item) items;
    size_t taken, kept, failed, warned;
};
void import_report_init(struct import_report *r);
void import_report_fini(struct import_report *r);

/// Import the openbot home `from` into `home`. Fails only when `from` is none: ERR_NOT_FOUND, ERR_INVALID.
int import_openbot(struct import_report *r, const char *home, const char *from,
                   struct err *e) MUST_CHECK;

struct jw;
/// `{taken, kept, failed, warned, items: [{outcome, kind, name, message?}]}`
void import_write(const struct import_report *r, struct jw *w);
