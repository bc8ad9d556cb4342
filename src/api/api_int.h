#pragma once

#include "api/api.h"
#include "base/vec.h"

// What the handlers of api/ share.

struct asking;
struct validation;

struct api {
    struct loop *loop;
    const char *version;
    const struct home *home;
    struct config_live *config;
    struct store *store;
    struct choices *choices;
    struct event_log *events;
    struct api_host host;
    uint64_t started_ms; // monotonic
    struct trust_hub *trust;
    struct api_shells *shells;            // what shells told; NULL while there was none
    struct gen_engine *engine;            // NULL while there is none
    struct plugins *plugins;              // the same
    struct improvements *improvements;    // the same
    struct agent *agent;                  // the same
    struct providers *providers;          // the same
    struct bots *bots;                    // the same
    struct mcp *mcp;                      // the same
    struct lane *files;                   // reads and writes plugins' files
    vec(struct asking *) asking;          // providers, see provider.c
    vec(struct validation *) validations; // under way, see validate.c
};

/// End the processes of validate.c; each is answered with a failure.
void api__end_validations(struct api *api);
void api__free_shells(struct api_shells *t); // NULL is allowed
/// End the requests of provider.c in the same way.
void api__end_asking(struct api *api);
