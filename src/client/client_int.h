#pragma once

#include "client/client.h"
#include "net/http1.h"

// What blocking and asynchronous requests share.

/// Check `r` and begin `out` with the head of it, for the body to follow. On failure `out` holds nothing.
int client__write_head(struct buf *out, const struct client_peer *to,
                       const struct client_request *r, struct err *e) MUST_CHECK;

/// Note what the head of an answer says.
void client__take_head(struct client_answer *a, const struct http1 *http);
