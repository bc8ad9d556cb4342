#pragma once

#include <limits.h>

#include "base/json.h"
#include "base/vec.h"
#include "term/color.h"

// What the rows round the input say: what the session does now, and how it stands. It learns from the
// session's row and events, and draws nothing.

enum gauge_work {
    GAUGE_IDLE,
    GAUGE_THINKING,
    GAUGE_WRITING,
    GAUGE_RUNNING, // a tool
    GAUGE_RETRYING,
    GAUGE_COMPACTING,
    GAUGE_WAITING, // for an answer of the user
    GAUGE_STOPPING,
};

struct gauge {
    enum gauge_work work;
    uint64_t began_ns; // the turn, on the monotonic clock
    uint64_t retry_ns; // when the next try begins
    unsigned running;  // tools
    char what[160];    // the tool that runs, or why the last try failed
    size_t said;       // bytes streamed since tokens were last counted

    // tokens; -1: not known
    int64_t input, output;           // of the session
    int64_t turn_input, turn_output; // of the session when the turn began
    int64_t context, window;         // of the last request, and what the model takes
    double cost;                     // of the session, USD; negative: not known

    char model[128], dir[PATH_MAX], branch[128], permission[16], env[32];
};

/// Nothing is known yet.
void gauge_init(struct gauge *f);
/// Take what the session's row says, and the branch of its directory.
void gauge_row(struct gauge *f, const struct json *row);
void gauge_event(struct gauge *f, struct str type, const struct json *ev);
/// A turn begins; its events have not come yet.
void gauge_begin(struct gauge *f);

/// Append the line that shows what is going on, with a line feed; nothing when that is nothing.
void gauge_work_line(const struct gauge *f, struct buf *out, size_t cols, enum color_depth color);
