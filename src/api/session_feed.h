#pragma once

#include "agent/agent.h"
#include "api/op.h"

/// The journal of a session behind `after` as a stream; `turn` (NULL: none) is where it ends.
struct op_source *session_feed_new(struct session *s, uint64_t after, const char *turn);
