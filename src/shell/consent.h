#pragma once

#include "config/home.h"
#include "env/gate.h"

/// Whether the project's environment may be used, asked for on first use.
struct consent;

/// Read what the user trusts and make the coordinator's gate of it. With `may_ask` (we have the
/// terminal) an environment that is not trusted is asked about, and the answer stored; without, or when
/// the answer is no: ERR_DENIED with the command to type. Blocks. `gate` lives as long as `*out`.
int consent_open(struct consent **out, struct env_gate *gate, const struct home *home,
                 const char *root, bool may_ask, struct err *e) MUST_CHECK;
void consent_close(struct consent *c); // NULL is allowed
