#pragma once

#include "api/api.h"

// What the handlers of api/ share.

enum { API_FEATURES = 16 };

struct api_choice {
    bool made; // by command; else the setting counts
    bool enabled;
};

struct api {
    struct loop *loop;
    const char *version;
    const struct home *home;
    const struct config *config; // both set before the first operation
    const struct config_diags *diags;
    struct store *store;
    struct event_log *events;
    struct api_host host;
    uint64_t started_ms; // monotonic
    struct trust_hub *trust;
    struct gen_engine *engine;                // NULL while there is none
    struct api_choice features[API_FEATURES]; // in the order of features.def
    void (*choices_done)(void *arg, int status, const struct err *e);
    void *choices_arg;
};

/// Take the choices of features out of choices.json (NULL: there is none).
void api__read_features(struct api *api, const struct json *choices);
