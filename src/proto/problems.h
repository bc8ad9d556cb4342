#pragma once

#include "base/json.h"

// Errors as every face shows them: application/problem+json with a stable `code`.

enum problem {
#define PROBLEM(code, ...) PROBLEM_##code,
#include "proto/problems.def"
#undef PROBLEM
    PROBLEM__COUNT
};

struct problem_info {
    const char *code;
    int status;    // HTTP
    int exit_code; // of a client that got it
    const char *title;
};
extern const struct problem_info problems[PROBLEM__COUNT];

/// Write `{type, title, status, code, detail, hint?}` to `out`; hint may be NULL.
void problem_write(struct buf *out, enum problem p, struct str detail, const char *hint);

/// The entry whose code is `code`, or NULL.
const struct problem_info *problem_find(struct str code);
