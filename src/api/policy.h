#pragma once

#include "api/op.h"

struct term;

/// Let Lua decide how an agent of `kind` (pty, chat, bot) is started, then `run` the operation with the parameters
/// that came out of it; or it is refused.
void api__decide(struct api *api, struct op_call *c, const char *kind, op_fn *run);
/// The program of a run has ended with its terminal: let Lua say what becomes of the work, then end the run.
void api__decide_end(struct api *api, const struct term *t);
