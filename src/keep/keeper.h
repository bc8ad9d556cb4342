#pragma once

#include "base/base.h"

/// `afloat keep`: start `afloat keep stay` and return when that has answered. `afloat keep stay`: read what to
/// run from stdin (JSON, see keeper_spec.c), own a pseudo-terminal with that program until it ends, and say on
/// stdout that it runs, `{"pid"}`, or why not, `{"error"}`. Returns the exit code.
int keeper_main(bool stays);
