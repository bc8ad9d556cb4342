#pragma once

#include "base/str.h"
#include "loop/loop.h"
#include "shell/dir.h"

// What waits for the shell, and what the shell answers: files in the session's directory.
//
// `pending` exists exactly while something waits. Each of its lines is "ID KIND ARG":
//
//     ID env NAME     evaluate the rendered file NAME if it is whole
//     ID task NAME WHAT   run the file NAME; WHAT is for people
//     ID note TEXT    print TEXT
//
// Ids only grow, and the shell does nothing whose id (of environments, or of the rest) is not above the
// last it did. So `pending` may be replaced at any time: what the shell is just doing is in the new file
// too, and is passed over. Having done a line it writes ack.ID with the status.

struct offers;

struct offers_cb {
    /// The shell did the line `id` with this status, and its file is gone.
    void (*acked)(uint64_t id, int status, void *arg);
    /// The shell asks for a reload.
    void (*asked)(void *arg);
};

/// `d` is borrowed until offers_close(). Never NULL. Where the kernel gives no events the directory
/// is looked at five times a second.
struct offers *offers_open(struct loop *l, const struct shell_dir *d, const struct offers_cb *cb,
                           void *arg);

/// Offer an environment, rendered; it takes the place of one that waits. Sets `*id` (never 0). On
/// failure what waited before still does.
int offers_env(struct offers *o, struct str text, uint64_t *id, struct err *e) MUST_CHECK;
/// Have the shell run `text` as the project's task `name`.
int offers_task(struct offers *o, const char *name, struct str text, uint64_t *id,
                struct err *e) MUST_CHECK;
/// How often this task waits or runs: only the shell knows whether it has begun with the first.
size_t offers_count_task(const struct offers *o, const char *name);
/// Have one line printed before the next prompt; control characters are shown as escapes. It takes the place
/// of a note that waits in the same `slot` (NULL: of none).
int offers_note(struct offers *o, const char *slot, struct str text, struct err *e) MUST_CHECK;

/// Withdraw everything and free; no callback follows. NULL is allowed.
void offers_close(struct offers *o);
