#pragma once

#include "base/buf.h"

/// Append `text` so that a terminal shows all of it and obeys none of it. A control character is
/// written as \x1b, a later character that a terminal obeys or hides (C1, zero width, writing
/// direction) as \u202e, a byte that is not UTF-8 as \xff. JSON text stays valid JSON.
/// With `lines`, line ends and tabs stay; otherwise they are written as \n and \x09.
void visible_add(struct buf *to, struct str text, bool lines);

/// Print one line to stderr in the form of visible_add(). One write, so that lines do not mix.
void visible_say(const char *fmt, ...) PRINTF_LIKE(1, 2);
