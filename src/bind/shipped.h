#pragma once

#include "base/shipped.h"

extern const struct shipped shipped_lua[]; // runtime/lua
