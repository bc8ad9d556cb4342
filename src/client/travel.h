#pragma once

#include "base/json.h"
#include "config/config.h"

// What of a client's surroundings goes with its requests.

/// The settings as a client reads them, or as the `hub` does; NULL with `e` (may be NULL) filled in. The caller frees
/// them with config_free().
struct config *travel_config(const struct home *home, bool hub, struct err *e);

/// Write the environment for a session's tools, and what chooses its model, as a JSON object.
int travel_write_env(const struct home *home, struct jw *w, struct err *e) MUST_CHECK;

/// Does the variable hold the key of a provider?
bool travel_is_key(const struct config *config, struct str name);

enum { TRAVEL_UMASK = 8 };
/// Our umask as the hub takes it: "0022".
const char *travel_umask(char out[TRAVEL_UMASK]);
