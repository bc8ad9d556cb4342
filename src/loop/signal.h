#pragma once

#include "loop/loop.h"

struct signal_watch;
typedef void signal_cb(int signum, void *arg);

/// Call `cb` on the loop thread for each arrival of `signum` until signal_close(). A watch does not
/// keep the loop alive. The caller owns `*out`; `arg` is borrowed until then.
int signal_open(struct signal_watch **out, struct loop *l, int signum, signal_cb *cb, void *arg,
                struct err *e) MUST_CHECK;
void signal_close(struct signal_watch *s); // NULL is allowed
