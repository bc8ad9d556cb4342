#pragma once

#include "base/shipped.h"

extern const struct shipped shipped_env[]; // runtime/env; ends with a NULL rel
