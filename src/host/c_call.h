#pragma once

#include "base/arena.h"
#include "base/json.h"

// A call of a plugin in C, as its functions see it (struct afloat_call of <afloat/plugin.h>).

struct afloat_call {
    int64_t id; // 0: it needs no answer
    struct arena arena;
    struct json *root; // its arguments by name
    const char *last;  // the argument that a chain may change, set by the caller; NULL: none
    bool answered, state_changed, memory_changed, value_changed;
    struct buf answer; // JSON
    char *message;     // it failed; NULL: it did not
};

/// A call with the hub's id, without arguments; end it with c_call_free().
struct afloat_call *c_call_new(int64_t id);
/// Free it with all that it holds.
void c_call_free(struct afloat_call *c);
/// Add an argument; both are copied, and NULL is an empty object.
void c_call_arg(struct afloat_call *c, const char *name, const struct json *value);
/// It has run: 0 and its answer is in `answer`, or a negative code and what it failed with.
int c_call_check(struct afloat_call *c, struct err *e) MUST_CHECK;

/// The functions of struct afloat_host; see there.
const char *c_call_text(struct afloat_call *c, const char *path);
const char *c_call_json(struct afloat_call *c, const char *path);
long long c_call_int(struct afloat_call *c, const char *path, long long fallback);
bool c_call_set(struct afloat_call *c, const char *path, const char *json);
bool c_call_set_text(struct afloat_call *c, const char *path, const char *text);
void c_call_answer_text(struct afloat_call *c, const char *format, ...) PRINTF_LIKE(2, 3);
void c_call_answer_json(struct afloat_call *c, const char *format, ...) PRINTF_LIKE(2, 3);
void c_call_fail(struct afloat_call *c, const char *format, ...) PRINTF_LIKE(2, 3);
