#pragma once

#include "env/env.h"
#include "env/gate.h"
#include "loop/work.h"

// The builder: makes one result of one project, in the background.

struct env_build_opts {
    struct loop *loop;
    struct lane *lane;
    const char *root;        // copied, like base
    const char *const *base; // outer environment
    const struct env_gate *gate;
    uint64_t timeout_ms;
    /// An input, as soon as it is known; borrowed for the call.
    void (*on_input)(const struct env_input *in, void *arg);
    void (*on_log)(struct str line, void *arg); // what a program printed
    /// The end, once, from the loop. `r` (borrowed, without generation and duration) is NULL on failure;
    /// `text` is then what to show. The build is freed after it.
    void (*on_done)(struct env_result *r, int code, const char *text, void *arg);
    void *arg;
};

struct env_build;

struct env_builder {
    /// Start. Never NULL; every failure comes by on_done. May never call back from inside.
    struct env_build *(*build)(const struct env_build_opts *o);
    /// End it; no callback follows, memory goes by itself.
    void (*cancel)(struct env_build *b);
    /// True when programs run in it, which may write files themselves.
    bool (*runs_programs)(const struct env_build *b);
};

/// env.toml, its script and the delegates.
extern const struct env_builder env_builder;
