#pragma once

#include "api/api.h"
#include "server/mount.h"

// Afloat as a model server: POST /v1/responses and GET /v1/models in the shape of the Responses API, answered by any
// provider that is configured. Codex and other clients of that API use a model of ours this way. See
// docs/internals/providers.md.

struct agent;
struct modelserver;
struct providers;

/// All borrowed until modelserver_close().
struct modelserver_opts {
    struct loop *loop;
    struct agent *agent;
    struct providers *providers;
    struct config_live *config;
    const struct home *home;
};

/// Make it and mount its paths on `server`. Costs nothing until the first request comes.
struct modelserver *modelserver_open(const struct modelserver_opts *o, struct server *server);
/// After the server has closed, before the providers do: give up the calls under way. NULL is allowed.
void modelserver_close(struct modelserver *s);
