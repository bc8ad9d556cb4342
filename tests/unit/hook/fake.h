#pragma once

// A target for tests: its handlers answer what they are told to, and say who ran.

#include "hook/run.h"
#include "unit/loop.h"

enum { FAKE_ARGS = 8 };

/// Arguments as a target keeps them: how many there are is known, whatever they are.
struct fake_args {
    size_t n;
    const char *v[FAKE_ARGS]; // NULL stands for nil
};

struct fake {
    const char *id;
    enum hook_answer answer;
    const char *value;         // HOOK_VALUE: becomes the first argument
    void (*inside)(void *arg); // called inside the handler; may be NULL
    void *arg;
    unsigned calls, cancels, releases;
    size_t saw_n;
    struct hook_run *waiting; // said HOOK_LATER
};

extern const struct hook_target fake_target;

/// Ids of the handlers that ran, in order: "a b c".
extern char fake_trace[512];
void fake_clear(void);

struct hook *fake_hook(struct fake *f, const char *point, enum hook_kind kind,
                       const struct hook_spec *more);

/// A set of these handlers in rank order; it takes the references over.
struct hook_set *fake_set(struct hook **hooks, size_t n, const struct hook_keeper *keeper);

/// Run the only list of `point`; it must end at once.
struct hook_run fake_dispatch(const struct hook_set *s, const char *point, enum hook_kind kind,
                              struct fake_args *args);
