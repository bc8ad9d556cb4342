#pragma once

#include "base/buf.h"
#include "base/str.h"

/// Append `bytes` as base64 (RFC 4648, padded).
void base64_encode(struct buf *out, struct str bytes);
/// The same for addresses and headers: `-` and `_` in place of `+` and `/`, no padding.
void base64_encode_url(struct buf *out, struct str bytes);
/// Decode `text` and append the bytes. Padding may be missing. False when `text` is not base64: part of it may be in `out`.
bool base64_decode(struct buf *out, struct str text);
