#pragma once

#include "base/buf.h"
#include "base/json.h"

// Pictures that come with a message. They are kept once, named by their contents, in the session's directory; a
// journal, a conversation and a request hold only where they are:
//
//     {"path": "sessions/ID/images/SHA256.png", "media_type": "image/png", "bytes": 1234, "name": "a.png"}
//
// Functions here work on files: on a lane.

enum { PICTURE_MAX = 5 << 20, PICTURES_A_MESSAGE = 10 };

/// Read the pictures of `given`, an array of absolute paths and {data, name?} objects (base64), keep them
/// below `dir`, which is relative to `home`, and append the array of where they are to `out`. ERR_INVALID and
/// ERR_TOO_LARGE say what is wrong with one.
int picture_take(const struct json *given, const char *home, const char *dir, struct buf *out,
                 struct err *e) MUST_CHECK;
/// Append "data:MEDIA_TYPE;base64,..." of a picture that picture_take() kept. ERR_INVALID: `path` is not one
/// of ours; ERR_NOT_FOUND or another number of libuv: it cannot be read.
int picture_load(const char *home, const char *path, struct buf *out, struct err *e) MUST_CHECK;
