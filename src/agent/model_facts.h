#pragma once

#include "config/config.h"

// What is known of a model beyond its name.

struct model_facts {
    int64_t context; // tokens that a request and its answer may have together; 0: unknown
    bool images;     // it takes pictures, as far as is known
};

/// What is known of a model of a provider of this kind: by `[models."NAME"]`, else from a short list of well-known ones,
/// else `[limits] context_tokens`.
struct model_facts model_facts(const struct config *c, const char *kind, const char *model);
