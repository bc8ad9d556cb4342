#pragma once

#include "gen/route.h"

// What a route's handler answered, checked before it becomes HTTP: no line breaks in headers, no status that a
// server may not send.

enum { GEN_HEADERS = 64 };

/// Texts live in the arena that each call is given. Begins zeroed.
struct gen_answer {
    int status;
    struct gen_pair headers[GEN_HEADERS];
    size_t n;
    struct str body;
};

/// Set the status: 200 to 599, else ERR_INVALID.
int gen_answer_status(struct gen_answer *a, int64_t status, struct err *e) MUST_CHECK;
/// Add `headers`, an object of names and texts or lists of texts. ERR_INVALID for what no header can be.
int gen_answer_headers(struct gen_answer *a, struct arena *arena, const struct json *headers,
                       struct err *e) MUST_CHECK;
/// Set the body after the headers, of which it adds `content-type` when they have none. ERR_INVALID for a body
/// where the status allows none. `body` is borrowed.
int gen_answer_body(struct gen_answer *a, struct str body, const char *type,
                    struct err *e) MUST_CHECK;

/// A handler's whole answer as JSON: nothing is 204, an object with an integer `status` is {status, headers,
/// body} (a text is sent as it is, everything else as JSON), everything else is 200 and JSON.
int gen_answer_read(struct gen_answer *a, struct arena *arena, const struct json *value,
                    struct err *e) MUST_CHECK;
