#pragma once

#include "base/err.h"
#include "base/str.h"
#include "config/home.h"

// `afloat acp`: the Agent Client Protocol, version 1, on the standard streams. An editor starts it, and its sessions
// are sessions of the hub. docs/guide/editors.md says how editors are set up.

/// Everything is borrowed for the call.
struct acp_opts {
    const struct home *home;
    const char *version;
    struct str env;     // the client's environment, a JSON object as POST /session takes it
    struct str choices; // more members of POST /session, JSON text without braces; may be empty
    int in, out;        // descriptors
    /// Make sure that the hub runs. May block. Returns 0 or a negative code.
    int (*start)(void *arg, struct err *e);
    void *arg;
};

/// Serve until the editor closes its end. Returns 0, or a negative code when nothing could be served.
int acp_run(const struct acp_opts *o, struct err *e) MUST_CHECK;
