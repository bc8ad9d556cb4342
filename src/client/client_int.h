#pragma once

#include "client/client.h"

// What blocking and asynchronous requests share.

/// Check `r` and begin `out` with the head of it, for the body to follow. On failure `out` holds nothing.
int client__write_head(struct buf *out, const struct client_peer *to,
                       const struct client_request *r, struct err *e) MUST_CHECK;
