#pragma once

#include "base/err.h"
#include "base/str.h"

// A store as one file, and back: from files to PostgreSQL and the other way, without loss. All of it blocks:
// for commands.
//
//     {"afloat":"store","format":1}
//     {"session":"ID","dir":"sessions/ID","events":2,"meta":"{...}"}
//     {"seq":1,"ts":"...","type":"session.created",...}        its events, as its journal has them
//     {"seq":2,...}
//     {"document":"choices.json","body":"{...}"}               and memory and skills of bots
//     {"end":true,"sessions":1,"events":2,"documents":1}

struct pg_link;

/// One store.
struct move_side {
    const char *home;   // in files: its lock is the caller's
    struct pg_link *pg; // in PostgreSQL; NULL: in files
    const char *below;  // export only what is below this directory: "bots/x/"; NULL: everything
};

struct move_counts {
    size_t sessions, events, documents;
    size_t skipped; // sessions that were there already, the same
};
/// Told after each session; may be NULL.
typedef void move_told(void *arg, const struct move_counts *n);

/// Write everything to the file `to`, which must not exist; after a failure it does not. A killed export leaves a file
/// without an end, which no import takes.
int move_export(const struct move_side *from, const char *to, struct move_counts *n,
                move_told *told, void *arg, struct err *e) MUST_CHECK;

/// Bring in everything of the file `from`, session by session, each whole or not at all, and read each back
/// to compare it, event by event. One that is there already and the same is passed over, so an import that was
/// cut short is just begun again; one that differs is ERR_CONFLICT. So is a document that differs, except feature choices,
/// which are replaced, and the last number of a workspace, which only grows. ERR_CORRUPT for a file that is not whole.
int move_import(const struct move_side *to, const char *from, struct move_counts *n,
                move_told *told, void *arg, struct err *e) MUST_CHECK;

/// Bring in the one session whose files are in `dir`, relative to `home`; ERR_CONFLICT as above.
int move_session(const struct move_side *to, const char *home, struct str dir,
                 struct err *e) MUST_CHECK;
