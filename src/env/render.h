#pragma once

#include "env/env.h"

/// Append `value` as one word of the dialect: the shell that reads it gets exactly these bytes.
void env_quote(struct buf *out, enum env_dialect d, const char *value);

/// A text of the same outer form that only prints `line` on stderr.
void env_render_note(enum env_dialect d, const char *line, struct buf *out);
