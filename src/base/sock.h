#pragma once

#include <sys/un.h>

#include "base/err.h"

// Unix sockets by path. The kernel takes 107 bytes of path, and homes may be deeper. Here only the last part of a path
// is limited.

/// The address of `path`. `*dir` is -1, or a descriptor that must stay open while the address is in use; the caller
/// closes it, also after a failure.
int sock_address(struct sockaddr_un *out, const char *path, int *dir, struct err *e) MUST_CHECK;

/// Bind `path`, mode 0600; nothing may be there yet. Listen on it, too. Connect to one. All return a close-on-exec,
/// non-blocking descriptor.
int sock_bind(const char *path, struct err *e) MUST_CHECK;
int sock_listen(const char *path, struct err *e) MUST_CHECK;
int sock_connect(const char *path, struct err *e) MUST_CHECK;

/// True when the other end of a connected Unix socket is a process of our own user.
bool sock_is_ours(int fd);
