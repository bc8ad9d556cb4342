#pragma once

#include "agent/providers.h"
#include "engine/world.h"

// The way from an engine's process to the model: a small HTTP server for this one process that passes requests on to the
// provider of the session. The process never gets the provider's key, and in a box without network it can reach only
// this server. See gateway.c.

struct gateway;

/// Open a gateway for session `q->session` to the provider of `q->choice` (NULL: none); both are copied. If `boxed`, the
/// socket comes from the box, by gateway_listen(); else it listens on 127.0.0.1 at once. NULL: it cannot listen, and `e`
/// says why.
struct gateway *gateway_open(struct engine_world *w, const struct engine_spec *q, bool boxed,
                             struct err *e);
/// The box listens: take its socket. See on_listen of proc.h.
void gateway_listen(struct gateway *g, uv_stream_t *from);
/// "http://127.0.0.1:PORT", and the key that a request needs. Borrowed.
const char *gateway_url(const struct gateway *g);
const char *gateway_key(const struct gateway *g);
/// A request that the engine's own code answers.
struct gateway_ticket;
/// A whole request; gateway_answer() follows, once. `body` is borrowed for the call.
typedef void gateway_request(void *arg, struct str body, struct gateway_ticket *ticket);
/// Hand POSTs for /mcp to `request`; NULL: not any more. Other methods are 405 there.
void gateway_serve(struct gateway *g, gateway_request *request, void *arg);
/// Answer with JSON (empty: 202 without a body), and free the ticket. Nothing happens when the peer is gone.
void gateway_answer(struct gateway_ticket *t, struct str json);
/// Close it and cancel its requests. NULL is allowed.
void gateway_close(struct gateway *g);
