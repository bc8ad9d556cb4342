#pragma once

#include "base/buf.h"
#include "base/str.h"

/// Append `bytes` as base64 (RFC 4648, padded).
void base64_encode(struct buf *out, struct str bytes);
/// The same for addresses and headers: `-` and `_` in place of `+` and `/`, no padding.
void base64_encode_url(struct buf *out, struct str bytes);
/// Append what `text` stands for; false, with part of it in `out`, when it is no base64. Padding may be missing.
bool base64_decode(struct buf *out, struct str text);
