#pragma once

#include "base/buf.h"

/// Copy `text` to `out`, with "[redacted]" in the places where secrets are written.
void log__hide_patterns(struct buf *out, struct str text);
