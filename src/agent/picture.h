#pragma once

#include "base/buf.h"
#include "base/json.h"

// Pictures of a message. Each is stored once, named by its contents, in the session's directory; journal, conversation
// and request hold only its path:
//
//     {"path": "sessions/ID/images/SHA256.png", "media_type": "image/png", "bytes": 1234, "name": "a.png"}
//
// The functions read and write files: call them on a lane.

enum { PICTURE_MAX = 5 << 20, PICTURES_A_MESSAGE = 10 };

/// Read the pictures of `given`, an array of absolute paths and {data, name?} objects (base64), store them in
/// `dir`, which is relative to `home`, and append an array as above to `out`. ERR_INVALID and ERR_TOO_LARGE say what
/// is wrong with one.
int picture_take(const struct json *given, const char *home, const char *dir, struct buf *out,
                 struct err *e) MUST_CHECK;
/// Append "data:MEDIA_TYPE;base64,..." of a picture that picture_take() stored. ERR_INVALID: `path` is not one of
/// those; ERR_NOT_FOUND or a negative errno: it cannot be read.
int picture_load(const char *home, const char *path, struct buf *out, struct err *e) MUST_CHECK;
