#pragma once

#include "config/home.h"
#include "env/gate.h"

/// Whether the environment of the project at `root` may be used. One that `gate` does not let pass is
/// asked about with `may_ask` (we have the terminal), and the answer stored; without, or when the answer
/// is no: ERR_DENIED with the command to type. Blocks.
int consent_get(const struct env_gate *gate, const struct home *home, const char *root,
                bool may_ask, struct err *e) MUST_CHECK;
