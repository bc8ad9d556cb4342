#pragma once

#include "env/env.h"

// What a shell must do to come from where it may be to where it should be.

enum env_op_kind { ENV_OP_SET, ENV_OP_UNSET, ENV_OP_LIST, ENV_OP_BACK, ENV_OP_FUNCTION };

/// A variable as it is expected to be; NULL: not set.
struct env_expect {
    const char *value;
};

struct env_op {
    enum env_op_kind kind;
    const char *name;
    const char *value; // SET: the new value. BACK: the element. FUNCTION: its text, or ""
    const struct env_expect *expect; // SET, UNSET: one of these, else the user changed it
    size_t n_expect;
    const char *old;   // LIST: elements of ours that go, with colons
    const char *front; // LIST: elements that come in front, with colons
    const char
        *back; // LIST: those at the end. BACK: elements that stood before it outside, nearest first
    bool outer; // LIST: the variable is set outside
};

/// All that one text says; strings live in `arena`.
struct env_ops {
    struct arena arena;
    vec(struct env_op) all;
    const char *path_front; // our elements in front of PATH, with colons
    uint64_t count;         // AFLOAT_ENV_GENERATION; 0: none
};

/// Fill `ops` for `r` (NULL: take everything back) and remember it as offered. End with env_ops_fini().
void env_session_merge(struct env_session *s, const struct env_result *r, struct env_ops *ops);
void env_ops_fini(struct env_ops *ops);
