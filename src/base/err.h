#pragma once

#include "base/base.h"

// Error codes. 0 is success; -1..-4095 are libuv/errno numbers; ours start at -10000.
#define ERR_MAP(X)                                                                                 \
    X(ERR_PARSE, -10001, "malformed input")                                                        \
    X(ERR_DENIED, -10002, "not allowed")                                                           \
    X(ERR_TOO_LARGE, -10003, "too large")                                                          \
    X(ERR_NOT_FOUND, -10004, "not found")                                                          \
    X(ERR_CONFLICT, -10005, "conflict")                                                            \
    X(ERR_USAGE, -10006, "wrong usage")                                                            \
    X(ERR_UNREACHABLE, -10007, "hub unreachable")                                                  \
    X(ERR_TIMEOUT, -10008, "timed out")                                                            \
    X(ERR_INVALID, -10009, "invalid value")                                                        \
    X(ERR_CORRUPT, -10010, "damaged data")                                                         \
    X(ERR_UNSUPPORTED, -10011, "not supported here")

enum {
#define X(name, num, text) name = num,
    ERR_MAP(X)
#undef X
};

/// A failure as the user reads it. Callers that do not need it pass NULL.
struct err {
    int code;
    char msg[240];
};

/// Fill `e` (if not NULL) and return `code`, so that failing is one line: `return err_set(...)`.
/// A message that does not fit is cut at a character border. The old message may be an argument.
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/// Like err_set() with `-errno` as code and ": <text of errno>" appended.
int err_sys(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/// Put `prefix: ` in front of what `e` already says; returns e->code. `e` must not be NULL: a
/// caller that was given none keeps one of its own.
int err_prefix(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/// The text of one of our own codes or of a negative errno. Never NULL.
const char *err_text(int code);
