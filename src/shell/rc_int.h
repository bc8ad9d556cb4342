#pragma once

#include "base/shipped.h"

extern const struct shipped shipped_shell[]; // runtime/shell; ends with a NULL rel
