#pragma once

#include "loop/loop.h"
#include "trust/trust.h"

// Trust in the hub: the book that the loop asks, and a worker that does everything that touches files. Jobs run
// one after the other, each on its own book read from the file, which replaces the hub's book: so changes by
// commands and changes by the hub arrive in the same way.

struct trust_hub;

/// Open the book of `home`; reads the file, so only for the start. What is wrong with it is logged.
/// `home` is copied. Never NULL.
struct trust_hub *trust_hub_open(struct loop *l, const char *home);
/// Jobs under way finish and call back; memory goes then. NULL is allowed.
void trust_hub_close(struct trust_hub *h);

/// The book, borrowed; its listeners are told of every change. Loop thread.
struct trust *trust_hub_book(struct trust_hub *h);

/// `body` is the answer as JSON when `status` is 0; else `e` says why. Listeners were told before.
typedef void trust_hub_cb(void *arg, int status, struct str body, const struct err *e);

/// Read the file again and answer with what is trusted, as GET /trust does. `cb` may be NULL.
void trust_hub_reread(struct trust_hub *h, trust_hub_cb *cb, void *arg);
/// As POST /trust, and as DELETE /trust. `dir` is absolute.
void trust_hub_add(struct trust_hub *h, struct str dir, bool follow, bool dry_run, trust_hub_cb *cb,
                   void *arg);
void trust_hub_remove(struct trust_hub *h, struct str dir, trust_hub_cb *cb, void *arg);
