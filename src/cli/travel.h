#pragma once

#include "base/json.h"
#include "config/home.h"

/// Write the environment for a session's tools, and what chooses its model, as a JSON object: what travels with a client.
int travel_write_env(const struct home *home, struct jw *w, struct err *e) MUST_CHECK;
