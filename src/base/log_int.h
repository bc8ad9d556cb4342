#pragma once

#include "base/buf.h"

/// What was registered with log_add_secret(): a vec() with a name.
struct log_secrets {
    struct buf *p;
    size_t n, cap;
};

/// Copy `text` to `out` with each registered secret replaced by "[redacted]".
void log__hide_known(struct buf *out, struct str text, const struct log_secrets *secrets);

/// Copy `text` to `out` with whatever stands where secrets stand replaced by "[redacted]".
void log__hide_patterns(struct buf *out, struct str text);
