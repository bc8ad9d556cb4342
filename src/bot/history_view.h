#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "store/shelf.h"

// One session as text: a header from its metadata, the commands that ran, and what the model said, rebuilt
// from the events, which are in files or in a shared store (`sh`, shelf.h). Blocking; on any thread but the loop's.

#define HISTORY_SECTIONS(X)                                                                        \
    X(ALL, "all")                                                                                  \
    X(RESPONSE, "response")                                                                        \
    X(COMMANDS, "commands")
enum history_section {
#define X(id, name) HISTORY_##id,
    HISTORY_SECTIONS(X)
#undef X
};
/// The section with that name; false when there is none.
bool history_section_parse(struct str name, enum history_section *out);

struct history_wish {
    enum history_section section;
    uint64_t offset; // lines from the end that are left out
    uint64_t limit;  // lines; 0: all
};

enum { HISTORY_VIEW_BYTES = 32 << 20, HISTORY_LIMIT = 50 };

/// Write the session of the directory `dir` (absolute): the last `limit` lines before `offset`, and when
/// there are others `[lines a-b of n] Earlier content: offset=...`. Lines of the journal that are no events
/// are passed over; of a session above HISTORY_VIEW_BYTES its end is shown.
/// `members` (may be NULL) gets `commands: [{command, done, success, error, duration_ms}], response: "..."`, into an
/// object that is open. ERR_NOT_FOUND when there is neither metadata nor journal; on failure nothing was written.
int history_view(struct buf *out, struct jw *members, struct shelf *sh, const char *dir,
                 const struct history_wish *w, struct err *e) MUST_CHECK;
