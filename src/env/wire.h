#pragma once

#include "env/env.h"
#include "env/vars.h"

// What a provider writes to descriptor 3: JSON lines, of which the last complete answer counts.
//
//     {"inputs":[{"path":"go.mod","kind":"file"}]}                       any number of times
//     {"v":1,"set":{},"unset":[],"prepend":{},"append":{},"messages":[]}  the answer
//     {"v":1,"environ":true}                                             the answer, for values that
//     NAME=value NUL NAME=value NUL ... to the end                       JSON cannot hold
//     NAME()=text NUL                                                    among them: a function of bash

enum { ENV_WIRE_MAX = 8 << 20 }; // bytes in all

struct env_wire {
    struct buf in;               // not parsed yet
    size_t total;                // bytes so far
    bool environ;                // the rest are NAME=value entries
    bool answered;               // an answer was seen
    struct arena arena;          // what the answer is made of
    struct env_result *answer;   // differences; never NULL after init
    vec(struct env_var) entries; // of the environ block
    vec(struct env_var) functions;
    /// Called for each input as it comes; the path is as the provider wrote it.
    void (*on_input)(const char *path, enum env_kind kind, void *arg);
    void *arg;
};

/// The caller's storage; set `on_input` and `arg` after init.
void env_wire_init(struct env_wire *w);
void env_wire_fini(struct env_wire *w);

/// Take in bytes, in pieces of any size. ERR_PARSE for a line that is not JSON or not of that shape,
/// ERR_TOO_LARGE; the wire must then not be fed again.
int env_wire_feed(struct env_wire *w, struct str bytes, struct err *e) MUST_CHECK;
/// The provider has closed the descriptor. ERR_PARSE when there was no answer or its last line is incomplete.
int env_wire_end(struct env_wire *w, struct err *e) MUST_CHECK;

/// Apply the answer to `vars`, which hold the environment that the provider was started with.
void env_wire_apply(const struct env_wire *w, struct env_vars *vars);
