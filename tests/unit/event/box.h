#pragma once

// A stream over a real store, in the test's own directory.

#include "event/event.h"
#include "store/store.h"
#include "unit/loop.h"
#include "unit/test.h"

struct box {
    struct loop loop;
    struct store *store;
    struct event_log *log;
    bool answered;
    int status;
    struct err err;
};

extern const struct loop_clock *box_clock; // NULL: the system's

/// A store_done of the box, and waiting for it; returns its status.
void box_note(void *arg, int status, const struct err *e);
int box_wait(struct box *b);
int box_try_open(struct box *b, size_t ring);
void box_open(struct box *b, size_t ring);
void box_close(struct box *b);
