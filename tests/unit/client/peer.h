#pragma once

#include <sys/types.h>

/// A hub that says what it is told: a child that listens on `path`, takes one connection, reads the
/// request up to its blank line (and `body` bytes more) into `path`.request, sends `answer` in
/// pieces of `piece` bytes, and closes. Returns its process id; it ends by itself.
pid_t peer_start(const char *path, const char *answer, size_t piece, size_t body);

/// The same, but it keeps the connection open behind its answer until it is killed.
pid_t peer_start_silent(const char *path, const char *answer);

/// End a silent one, whatever it has read by then.
void peer_kill(pid_t pid);

/// What the peer was sent. Waits for it to end; static storage.
const char *peer_request(pid_t pid, const char *path);
