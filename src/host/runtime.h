#pragma once

#include "base/shipped.h"

extern const struct shipped host_runtime[]; // runtime/host

/// The file of that name; it is there.
const struct shipped *host_runtime_find(const char *name);
