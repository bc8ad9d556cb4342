#pragma once

#include "base/base.h"

/// Be the process of a plugin in C: compile what comes with `load`, serve descriptor 3 until that is closed; with `validating`
/// answer one request on stdin. Returns the exit code of the process.
int host_c_main(bool validating);
