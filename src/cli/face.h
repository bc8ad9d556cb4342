#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "term/color.h"

// What the rows round the input say: what the session does now, and how it stands. It learns from the
// session's row and events, and draws nothing.

enum face_work {
    FACE_IDLE,
    FACE_THINKING,
    FACE_WRITING,
    FACE_RUNNING, // a tool
    FACE_RETRYING,
    FACE_WAITING, // for an answer of the user
    FACE_STOPPING,
};

struct chat_face {
    enum face_work work;
    uint64_t began_ns; // the turn, on the monotonic clock
    uint64_t retry_ns; // when the next try begins
    unsigned running;  // tools
    char what[160];    // the tool that runs, or why the last try failed
    size_t said;       // bytes streamed since tokens were last counted

    // tokens; -1: not known
    int64_t input, output;           // of the session
    int64_t turn_input, turn_output; // of the session when the turn began
    int64_t context;                 // of the last request
    double cost;                     // of the session, USD; negative: not known

    char model[128], dir[256], branch[128], permission[16], env[32];
};

void face_init(struct chat_face *f);
/// Take what the session's row says, and the branch of its directory.
void face_row(struct chat_face *f, const struct json *row);
void face_event(struct chat_face *f, struct str type, const struct json *ev);
/// A turn begins; its events have not come yet.
void face_begin(struct chat_face *f);

/// Append the line that shows what is going on, with a line feed; nothing when that is nothing.
void face_work_line(const struct chat_face *f, struct buf *out, size_t cols,
                    enum color_depth color);
/// Append the line that shows how the session stands, with a line feed; nothing while that is not known. `~` stands for `home`.
void face_status_line(const struct chat_face *f, struct buf *out, size_t cols,
                      enum color_depth color, const char *home);
