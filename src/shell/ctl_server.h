#pragma once

#include "base/str.h"
#include "loop/loop.h"
#include "shell/dir.h"

// The wrapper's side of shell/ctl.h. Belongs to the loop thread.

struct ctl_server;
struct ctl_call; // one question, valid until it is answered or the server is closed

/// Answer now or later, with exactly one of the two functions below. `op` and `arg` (may be NULL) are
/// borrowed for the call. If the caller has disconnected, the answer is discarded.
typedef void ctl_fn(struct ctl_call *call, const char *op, const char *arg, void *data);

/// Listen in the session's directory `d` (borrowed for the call). The caller ends it with ctl_server_close();
/// `data` is borrowed until then.
int ctl_server_open(struct ctl_server **out, struct loop *l, const struct shell_dir *d, ctl_fn *fn,
                    void *data, struct err *e) MUST_CHECK;
/// Stop listening; open calls are gone with it. NULL is allowed.
void ctl_server_close(struct ctl_server *s);

/// Answer with one JSON object, or with a failure: `code` is one of our error codes. The call is gone then.
void ctl_answer(struct ctl_call *call, struct str json);
void ctl_fail(struct ctl_call *call, int code, const char *text);
