#pragma once

#include "base/err.h"

/// A session's private directory, `$AFLOAT_RUNTIME/shell/<id>`; shell/ctl.h says what is in it.
struct shell_dir {
    char *path;     // absolute
    const char *id; // last part of it
    int fd;         // holds a lock for as long as the session lives; close-on-exec
};

/// Make one, 0700. What dead sessions left behind is removed on the way. Refuses (ERR_DENIED) a
/// `runtime` or `runtime/shell` that is a link, another user's, or open to others. Blocks. The caller
/// ends it with shell_dir_close().
int shell_dir_open(struct shell_dir *d, const char *runtime, struct err *e) MUST_CHECK;

/// The same for a directory whose name the caller chose: `path` is made, and one that a dead process
/// left there under that name is gone before. Its parent must be there and ours alone.
int shell_dir_make(struct shell_dir *d, const char *path, struct err *e) MUST_CHECK;

/// Remove it with all that is in it, and what dead sessions left.
void shell_dir_close(struct shell_dir *d);

/// True when `path` is a directory of ours that no other user may enter; no link is followed.
bool shell_dir_is_private(const char *path);
