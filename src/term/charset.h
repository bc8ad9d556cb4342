#pragma once

#include "base/buf.h"

/// Does the terminal take UTF-8? The first of LC_ALL, LC_CTYPE and LANG that is set decides, and only one that names
/// another encoding ("de_DE.ISO-8859-1") says no: "C" and nothing at all are common where UTF-8 works.
bool charset_is_utf8(void);

/// Append text and sequences for a terminal that does not: each character as ASCII of the same width, marks and frames of
/// ours as what looks most like them, letters of other alphabets as '?'.
void charset_add_ascii(struct buf *out, struct str text);
