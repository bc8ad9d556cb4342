#pragma once

#include "base/str.h"
#include "loop/loop.h"
#include "shell/dir.h"

// The wrapper's side of shell/ctl.h. Belongs to the loop thread.

struct ctl_server;
struct ctl_call; // one question, valid until it is answered or the server is closed

/// Answer now or later, with exactly one of the two functions below. `op` and `arg` (may be NULL) are
/// borrowed for the call. An asker who has left is answered in vain.
typedef void ctl_fn(struct ctl_call *call, const char *op, const char *arg, void *data);

int ctl_server_open(struct ctl_server **out, struct loop *l, const struct shell_dir *d, ctl_fn *fn,
                    void *data, struct err *e) MUST_CHECK;
void ctl_server_close(struct ctl_server *s); // NULL is allowed; open calls are gone with it

void ctl_answer(struct ctl_call *call, struct str json); // one JSON object
void ctl_fail(struct ctl_call *call, int code, const char *text);
