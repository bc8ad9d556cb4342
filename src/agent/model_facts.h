#pragma once

#include "config/config.h"

// What is known of a model beyond its name: [models."NAME"] says it, else a short list of our own.

struct model_facts {
    int64_t context; // tokens that a request and its answer may have together; 0: unknown
    bool images;     // it takes pictures, as far as is known
};

/// What is known of a model: by `[models."NAME"]`, else from a short list of well-known ones.
struct model_facts model_facts(const struct config *c, const char *model);
