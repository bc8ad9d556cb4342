#pragma once

#include "loop/work.h"
#include "store/indexer.h"
#include "store/store.h"

// The sessions of a store in files: who waits for what, and on which lane it runs. Everything here
// runs on the loop thread.

struct session_request;
struct sessions;

struct sessions_opts {
    struct loop *loop;
    const char *home;   // borrowed
    struct lane *write; // one thread: appends, nothing else
    struct lane *sync;  // syncs of journals
    struct lane *files; // everything that may take long
    struct indexer *index;
    unsigned open_max;
    unsigned sync_ms;
    void (*notice)(void *arg, const struct store_notice *n);
    void (*idle)(void *arg); // called each time the last session has nothing left to do
    void *arg;
};

/// The sessions of a store; nothing is read yet. Close with sessions_close().
struct sessions *sessions_open(const struct sessions_opts *o);

/// request() of store_ops.
void sessions_request(struct sessions *ss, struct str id, struct session_request *op);

/// Give the index what it does not know yet, so that a list asked for next is right.
void sessions_flush(struct sessions *ss);

/// How many are in memory: open or with something to do.
size_t sessions_held(const struct sessions *ss);

/// From now on sync and put away every session as soon as it has nothing left to do; nothing may be
/// asked any more. `idle` says when none is held. The first error of a sync ends up in `e`.
void sessions_drain(struct sessions *ss);
/// Free it; none may be held. The first error of a sync while draining, or 0.
int sessions_close(struct sessions *ss, struct err *e);
