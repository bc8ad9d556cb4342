#pragma once

#include "env/env.h"

// How the command of a task is run; a test has one of its own.

struct env_exec;

struct env_exec_opts {
    struct loop *loop;
    const char *command; // for `sh -c`; read during the call only, like the next two
    const char *cwd;
    const char *const *env;
    void (*on_line)(struct str line, void *arg);
    /// Once, never from inside start. 0, or a negative code with a text.
    void (*on_end)(int code, const char *why, void *arg);
    void *arg;
};

struct env_executor {
    int (*start)(struct env_exec **out, const struct env_exec_opts *o, struct err *e);
    void (*cancel)(struct env_exec *x); // on_end follows
    void (*drop)(struct env_exec *x);   // no callback follows
};

/// Processes, each in a group of its own.
extern const struct env_executor env_executor_proc;

/// A hash over a task's command and the files that its inputs name; "" when it has none. Blocks.
void env_task_print(const struct env_task *t, char out[SHA256_HEX]);
