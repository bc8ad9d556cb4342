#pragma once

#include "base/shipped.h"

extern const struct shipped recorder_lua[]; // runtime/host
