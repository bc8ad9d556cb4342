#pragma once

#include "base/buf.h"

/// Copy `text` to `out` with whatever stands where secrets stand replaced by "[redacted]".
void log__hide_patterns(struct buf *out, struct str text);
