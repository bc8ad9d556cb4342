#pragma once

#include "base/buf.h"

/// Append the difference between two texts as a unified diff with three lines of context:
///
///     --- a/NAME
///     +++ b/NAME
///     @@ -1,3 +1,4 @@
///
/// Nothing when they are equal. Texts that differ in very many places are shown as one block replaced by
/// another, which is always correct.
void linediff_write(struct buf *out, struct str name, struct str before, struct str after);
/// The same without the two lines of names.
void linediff_hunks(struct buf *out, struct str before, struct str after);
