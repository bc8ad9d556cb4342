#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "term/mdstream.h"
#include "view/out.h"

// The events of a session, shown: as Markdown and cards on a terminal, as plain text elsewhere, or one
// event a line.

enum view_mode {
    VIEW_LIVE,  // a terminal that can be drawn on
    VIEW_PLAIN, // messages on stdout when they are whole; all else is talk
    VIEW_JSON,  // events as they came
};

// A tool that runs.
struct view_call {
    char *id, *about; // what its card says
};

struct view {
    enum view_mode mode;
    struct out *out;             // borrowed
    size_t cols;                 // 0: as wide as the terminal
    struct mdstream md;          // the message in hand, as it comes
    struct buf said;             // what was streamed of it
    struct buf final;            // the last message that was shown whole
    struct buf fault;            // why the last turn failed, as it was shown
    bool echo;                   // show the user's messages too, not only those that steer the turn
    bool last_only;              // in plain mode, print only the last message of a turn
    bool compacts;               // this turn only makes the conversation shorter
    bool cut;                    // the message in `final` was cut off
    bool open;                   // show all of what the model thinks and tools print
    struct buf thought;          // what the model thinks, until it says or does something
    uint64_t thinks_at;          // when it began, on the monotonic clock
    struct buf progress;         // the end of what the tool in hand has printed
    vec(struct view_call) calls; // without a result yet
    bool overlap;                // several tools ran at once: a result says whose it is
    struct buf
        diffs_shown; // in questions of this turn: the ids of the calls, each with a line feed
};

/// Begin to show a session on `out`, which is borrowed. The caller ends it with view_fini().
void view_init(struct view *v, enum view_mode mode, struct out *out);
/// Free what it holds; writes nothing.
void view_fini(struct view *v);

/// Show one event: `ev` is `data`, parsed (NULL when it could not be). Flushes; false when stdout
/// cannot be written.
bool view_event(struct view *v, struct str type, const struct json *ev, struct str data);

/// Whatever is half drawn is printed for good, so that something else can be.
void view_settle(struct view *v);

/// Append the rows of what is not printed for good yet, as many of the last as `rows`, for the end of
/// the screen. Prints for good what has become final.
void view_tail(struct view *v, struct buf *lines, size_t rows);

/// Show a unified diff, at most `lines` of it, in the question before a call: its result does not show the diff again.
void view_asked_diff(struct view *v, struct str call_id, struct str diff, size_t lines);
/// Print Markdown that is complete; `cut`: it is the beginning of an answer that the user cut off.
void view_markdown(struct view *v, struct str text, bool cut);

/// Text from outside for people: on a terminal without control characters, else as it is. It ends with
/// a line feed.
void view_text(struct out *o, struct str text);
