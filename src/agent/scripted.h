#pragma once

#include "agent/responses.h"
#include "base/buf.h"

// The answers of the scripted model, as the bytes that a server of the Responses API would send. No clock and no
// file here; provider_scripted.c brings both.

/// One line of a scenario and how far it was played. The caller's storage; read-only outside.
struct scripted_scene {
    uint64_t delay_ms; // before anything is said
    uint64_t delta_ms; // between two words
    bool cut;          // set it to break the connection in the middle of the text
    uint64_t number;   // of its line in the file, from 1; 0: it comes from no file
    // private
    struct arena arena;
    const struct json *line; // an object
    uint64_t n;              // of the request, from 1
    struct str text;
    size_t said;    // bytes of it that were written
    unsigned stage; // what comes next
    struct responses_writer writer;
};

/// Take line `n` of `scenario` (JSON lines; empty ones do not count); after the last line the answer is
/// "(end of scenario)". ERR_PARSE names a line that is not a scene.
/// `scenario` must outlive the scene. Call scripted_fini() whatever is returned.
int scripted_init(struct scripted_scene *s, struct str scenario, uint64_t n,
                  struct err *e) MUST_CHECK;
/// Play `line`, which is known to be a scene and must outlive it.
void scripted_init_line(struct scripted_scene *s, const struct json *line, uint64_t n);
void scripted_fini(struct scripted_scene *s);

/// Its `when`: a text that must be in the last message to the model; empty: it has none.
struct str scripted_when(const struct scripted_scene *s);

enum scripted_fate { SCRIPTED_ANSWERS, SCRIPTED_FAILS, SCRIPTED_IS_CUT };

/// An answer that is a failure.
struct scripted_failure {
    int status;
    uint64_t retry_after_ms; // the wait that it asks for; 0: none
    struct str code, message;
};

/// How try `number` (from 1) ends. `out` is filled in if it fails.
enum scripted_fate scripted_fate(const struct scripted_scene *s, unsigned number,
                                 struct scripted_failure *out);

/// Append the next events: the opening, one word, the calls, the end. `input_tokens` is the usage if the scene gives
/// none. False, and nothing is appended, when all was written.
bool scripted_next(struct scripted_scene *s, uint64_t input_tokens, struct buf *out);
