#pragma once

#include "base/buf.h"
#include "loop/loop.h"

// Bytes from a terminal into a pseudo-terminal and back, all of them, in order, unchanged.
//
//     terminal `in`  ──> up   (64 KiB) ──> master
//     terminal `out` <── down (64 KiB) <── [filter] <── master
//
// A side whose buffer is full is not read: a writer that is too fast waits, as on any terminal. All
// functions and callbacks belong to the loop thread.

struct pump;

enum pump_end {
    PUMP_DRAINED, // after pump_finish(): the master had nothing more, and all of it was written
    PUMP_HANGUP,  // the terminal is gone
};

struct pump_cb {
    /// Called once, never from inside a function of this header. No byte moves any more.
    void (*on_end)(struct pump *p, enum pump_end how, void *arg);
    /// What to write for `bytes` from the master, appended to `to`; it may keep some for later. Called
    /// with no bytes at the end of a finished pump: it keeps nothing then. NULL: the bytes themselves.
    void (*filter)(struct str bytes, struct buf *to, void *arg);
};

/// Begin to pump. The descriptors, three different numbers, are borrowed until pump_close() and become
/// non-blocking.
int pump_open(struct pump **out, struct loop *l, int terminal_in, int terminal_out, int master,
              const struct pump_cb *cb, void *arg, struct err *e) MUST_CHECK;

/// The writers are gone or do not count any more: deliver what is in the master, then end.
void pump_finish(struct pump *p);

/// Stop and continue, around a time in which the terminal is not ours.
void pump_pause(struct pump *p, bool paused);

/// Write bytes of our own between two of the program's; only for a filter's owner, whose output ends
/// at the end of a sequence.
void pump_inject(struct pump *p, struct str bytes);

/// Let the program read bytes of our own, after what was typed so far: what it asked the terminal and a
/// filter's owner answers. Dropped when it reads nothing and the way is full.
void pump_answer(struct pump *p, struct str bytes);

/// Stop for good and free; no callback follows. NULL is allowed.
void pump_close(struct pump *p);
