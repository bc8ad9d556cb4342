#pragma once

#include <lauxlib.h>

#include "base/str.h"

// Lua's patterns, matched step by step under the running entry's deadline.

enum { MATCH_CAPTURES = 32, MATCH_DEPTH = 200 };
enum { MATCH_OPEN = -1, MATCH_POSITION = -2 }; // instead of a capture's length

struct match {
    lua_State *L;
    struct vm *vm;
    const char *s, *s_end; // subject
    const char *p_end;     // of the pattern
    unsigned steps;        // not yet paid for
    int depth;             // calls that may still nest
    int n;                 // captures
    struct match_capture {
        const char *at;
        ptrdiff_t n; // or one of the two above
    } captures[MATCH_CAPTURES];
};

/// Begin to match; both texts are borrowed.
void match_init(struct match *m, lua_State *L, struct str subject, struct str pattern);

/// Match the pattern from `p` on at `s`, from a fresh start. Returns the end of the match or NULL;
/// raises on a malformed pattern, and when the entry's time is over.
const char *match_at(struct match *m, const char *s, const char *p);

/// Push capture `i` of the match [s, e), or all; the whole match where there is none (but not
/// for `s` NULL). match_push_all() returns how many.
void match_push(struct match *m, int i, const char *s, const char *e);
int match_push_all(struct match *m, const char *s, const char *e);
