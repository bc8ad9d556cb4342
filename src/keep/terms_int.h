#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "keep/chan.h"
#include "keep/terms.h"
#include "loop/timer.h"

// What the files about the hub's terminals share.

struct terms_wait {
    terms_text *done;
    void *arg;
    struct terms_wait *next;
};

struct term {
    struct terms *all;
    char id[64];
    char *socket;
    struct chan *chan;
    struct arena arena;     // of `row`
    const struct json *row; // what WELCOME said; NULL before
    char *title, *directory;
    int64_t started_ms;
    int rows, cols, viewers, status;
    bool ended, dying, told;
    terms_started *started; // called after WELCOME, or NULL
    void *started_arg;
    struct terms_wait *kills, *screens;
    struct timer late; // no WELCOME came, or it does not die
};

/// A caller of terms_settle().
struct terms_settling {
    loop_fn *done;
    void *arg;
};

struct starting;

struct terms {
    struct terms_opts opts;
    char *dir;
    vec(struct term *) list; // newest first
    vec(struct starting *) starting;
    vec(struct terms_settling) settling;
    bool closed; // freed when the last one that starts has ended
};

/// Connect to a keeper and list it. `done` may be NULL.
int terms__connect(struct terms *all, const char *id, terms_started *done, void *arg,
                   struct err *e) MUST_CHECK;
/// Free it if it is closed and nothing of it is left.
void terms__free_closed(struct terms *all);
/// Answer those who wait for keepers to start, and forget them.
void terms__stop_starting(struct terms *all);
