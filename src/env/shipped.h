#pragma once

#include "base/shipped.h"

extern const struct shipped shipped_env[]; // runtime/env; ends with a NULL rel

/// The text of a file of runtime/env, which must be there. NUL-terminated.
const char *env_shipped(const char *rel);
