#pragma once

// MCP on stdin and stdout for clients that start their servers as programs, passed on to the hub.

/// Serve until stdin ends or a signal comes. `address` is the hub's socket or HOST:PORT, `header` a line with CR LF that
/// every request brings; both are borrowed.
/// Returns 0, or ERR_TOO_LARGE for a message that is too large, which the client was told.
int bridge_run(const char *address, const char *header);
