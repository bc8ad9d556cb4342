#pragma once

#include "base/err.h"

/// Listen on the Unix socket `path`, of any length, mode 0600; nothing may be there yet. Connect to one.
/// Both return a close-on-exec, non-blocking descriptor.
int sock_listen(const char *path, struct err *e) MUST_CHECK;
int sock_connect(const char *path, struct err *e) MUST_CHECK;

/// True when the other end of a connected Unix socket is a process of our own user.
bool sock_is_ours(int fd);
