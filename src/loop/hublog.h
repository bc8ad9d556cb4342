#pragma once

#include "base/json.h"
#include "base/log.h"
#include "loop/loop.h"

// Where the hub's log goes: a rotated file, a ring of the last lines in memory, the event stream; warnings, errors and
// the hub's own lines also to systemd's journal if stderr is that.

struct hublog;

/// Take the process's log over. Lines are appended to `path` (0600); past `max_bytes` it becomes
/// `path`.1, and so on up to .3.
int hublog_open(struct hublog **out, const char *path, size_t max_bytes, struct err *e) MUST_CHECK;

/// From now on lines of level info and above also go to `emit`, on the loop thread, in order.
typedef void hublog_emit(void *arg, enum log_level level, const char *component, struct str text);
int hublog_attach(struct hublog *h, struct loop *l, hublog_emit *emit, void *arg,
                  struct err *e) MUST_CHECK;
/// No call of `emit` after this.
void hublog_detach(struct hublog *h);

/// Open the file anew, as after it was moved away.
void hublog_reopen(struct hublog *h);

/// The last `limit` lines as objects {ts, level, component, text} into an open array.
void hublog_lines(struct hublog *h, size_t limit, struct jw *w);

/// Give the process's log back and free. After hublog_detach() the loop must have run to its end.
void hublog_close(struct hublog *h);
