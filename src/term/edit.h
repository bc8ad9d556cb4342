#pragma once

#include "base/buf.h"
#include "base/vec.h"
#include "term/keys.h"

// The input of a screen: keys in, text and lines out. It reads and writes nothing itself.

enum edit_result {
    EDIT_MORE,      // the key was used
    EDIT_DONE,      // Enter: the text is complete
    EDIT_INTERRUPT, // Ctrl-C
    EDIT_END,       // Ctrl-D in an empty text
    EDIT_SUSPEND,   // Ctrl-Z
    EDIT_CLEAR,     // Ctrl-L: the screen is to be cleared and drawn again
    EDIT_COMPLETE,  // Tab: the owner knows what could follow, see edit_replace()
    EDIT_UNUSED,    // not a key of the editor
};

/// A text as it was before a change, and where the cursor stood.
struct edit_past {
    char *text;
    size_t n, at;
};

/// An editor. The members are its own. A text ends at 8 MiB: what is typed or pasted beyond is dropped.
struct edit {
    struct buf text; // may hold line feeds and tabs, no other control characters
    size_t at;       // the cursor, a byte offset between clusters
    struct buf killed;

    vec(struct edit_past) past;
    size_t past_bytes;
    unsigned change; // the kind of the last one: a run of the same kind is undone as one

    vec(char *) history;
    size_t shown;     // index into history; history.n: the new text
    struct buf draft; // the new text while history is shown

    bool searching;
    struct buf query;
    size_t found; // index into history of what is shown; history.n: nothing fits
};

/// An empty text without a history. The caller ends it with edit_fini().
void edit_init(struct edit *ed);
/// Free what it holds.
void edit_fini(struct edit *ed);

/// Begin a new text; history stays.
void edit_start(struct edit *ed);
/// Add a text to the history. False: it is empty or repeats the last one, and was not added.
bool edit_remember(struct edit *ed, struct str text);

/// Take one key. The result says what the caller has to do about it.
enum edit_result edit_key(struct edit *ed, const struct key *key);
/// The text as it is; borrowed until the next change.
struct str edit_text(const struct edit *ed);
/// Put `s` in place of what is between `from` and the cursor, for completion. Can be undone.
void edit_replace(struct edit *ed, size_t from, struct str s);

struct edit_place {
    size_t row, col;
};

/// Append the rows round the cursor, at most `rows` of `cols` columns, each with a line feed; the
/// first row of the text begins with `prompt`, which takes rows of its own where it is too long for one.
/// Returns where the cursor is in them. Costs as much as the lines that are shown, not as the text.
struct edit_place edit_lines(const struct edit *ed, struct buf *out, const char *prompt,
                             size_t rows, size_t cols);
