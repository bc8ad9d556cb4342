#pragma once

#include "env/env.h"
#include "env/gate.h"

// `afloat hook`: the environment in a shell of the user's own, by a process in the background.
//
// The hook's text (runtime/env/hook.*) starts one such process whenever the shell enters a project, with
// the shell's environment, and says by `dir` where the two meet:
//
//     env.<n>   n = 1, 2, ...: the shell evaluates the newest, see env_session_render(); older ones are empty
//     note      what the shell shows at its next prompt, see env_render_note(); it empties the file then
//     leave     what takes everything back
//     ack.<n>   written by the shell when it has evaluated env.<n>
//     stop      written by the shell when it has left the project

struct hook_opts {
    const char *root;
    const char *
        dir; // made by us, 0700, and removed in the end; ERR_DENIED if its parent is not ours alone
    enum env_dialect dialect;
    int pid;                 // of the shell: when it ends, so do we
    const char *const *base; // its environment
    const struct env_gate *gate;
    uint64_t build_timeout_ms; // of a program that builds; 0: the usual
    const char *socket;        // of the hub, which is told when one runs
};

/// Keep the environment built until the shell leaves or ends. Blocks for all that time.
int hook_serve(const struct hook_opts *o, struct err *e) MUST_CHECK;

/// The lines for the rc file of a shell; `program` is our own path, `base` the directory below which
/// shells and their processes meet.
void hook_text(enum env_dialect d, const char *program, const char *base, struct buf *out);
