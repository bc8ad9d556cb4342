#pragma once

#include "chat/chat_int.h"
#include "cli/run_end.h"

// What the files of `afloat run` and `afloat runs` share: following a run, and what is said of its end.

/// A run that is followed. `chat` is borrowed: its view, its person, and the session in hand.
struct run_follow {
    struct chat *chat;
    char id[CHAT_ID_MAX], bot[CHAT_ID_MAX];
    bool watching;             // another client's run: Ctrl-C leaves it running
    uint64_t mark;             // the hub's last event that we have seen
    char before[CHAT_ID_MAX];  // the session followed last
    unsigned iterations;       // that we have seen
    bool look;                 // events may be missing: the record tells
    bool deaf;                 // the terminal has no more lines
    struct client_watch plain; // lines of a terminal that cannot be drawn on
    unsigned stops;            // how often we asked for its end
    struct arena arena;
    const struct json *end; // what is known of its end; NULL: it runs
};

// ---- run_follow.c ---------------------------------------------------------------------------

/// The id of the newest event: those of a run that begins now come after it. The exit code.
int follow__mark(struct cli *c, uint64_t *mark);
/// Show what the run does until it has ended; then `end` is set, and the exit code 0. Any other: we left
/// it, or lost the hub, and have said so.
int follow__run(struct run_follow *f);
