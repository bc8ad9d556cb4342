#pragma once

#include "gen/engine.h"
#include "plugin/inputs.h"
#include "plugin/manifest.h"

// Who runs the server side of plugins: one runner for each language. The plugins' source reads, judges
// and stages; a runner loads one version and runs what it contributed. Everything belongs to the loop
// thread.
//
//     start ──> (whatever takes time: a process) ──ready──> load, in the run's turn
//           ──> keep (committed) or free (discarded) ──> enter ... leave ──> free

struct plugin_runner;
struct plugin_version;

/// What a version is made of; lives as long as the version.
struct plugin_code {
    const char *unit;        // name in the generation
    const char *name;        // the plugin's own name: namespaces of state and store
    const char *path;        // where the files came from, for messages; never read again
    const struct tree *tree; // the files
    const struct plugin_shape *shape;
    const struct json *options; // checked, with defaults
    const char *project;        // root of its repository; NULL: the user's
    /// Where the runner notes what the code reads while it loads; NULL: it need not.
    struct plugin_inputs *inputs;
};

/// The namespace of what outlives a version (state, store): the same plugin of another project is another one. Caller
/// frees.
char *plugin_namespace(const struct plugin_code *code);

/// The first member of what a runner keeps for a version.
struct plugin_version {
    const struct plugin_runner *runner;
    const struct plugin_code *code; // borrowed
    /// What the code said of itself where there is no manifest: {api, name, description, ...}; lives as
    /// long as the version. NULL: nothing.
    const struct json *metadata;
};

struct plugin_runner {
    const char *host; // "hub", "lua": what rows show
    /// Begin whatever takes time before load(): a process. `ready(ready_arg)` is called once, later, never from
    /// inside, when load() may come; free() may come before. NULL: load() needs nothing before.
    struct plugin_version *(*start)(void *arg, const struct plugin_code *code, loop_fn *ready,
                                    void *ready_arg);
    /// Load `code` as the staging unit `u`, in this call: everything it registers is the unit's. A
    /// dry run loads into a temporary state. 0 and `*out`, or a negative code and `fault`, whose
    /// strings are the caller's to free with gen_diag_fini(). Where there is a start(), `*out` is what that
    /// gave, and the caller's to free in any case.
    int (*load)(void *arg, const struct plugin_code *code, struct gen_unit *u, bool dry_run,
                struct plugin_version **out, struct gen_diag *fault);
    /// It was committed: what it did to the plugin's state stays.
    void (*keep)(struct plugin_version *v);
    /// plugin_start, plugin_shutdown; end with gen_life_done().
    void (*enter)(struct plugin_version *v, enum gen_reason why, struct gen_life_call *call);
    void (*leave)(struct plugin_version *v, enum gen_reason why, struct gen_life_call *call);
    /// Nothing of its unit can be entered any more, or it was never committed.
    void (*free)(struct plugin_version *v);
    size_t (*memory)(const struct plugin_version *v); // bytes in use
    /// Can nothing of it run any more? Then it is to be loaded again; who runs it asks for that with a
    /// request of its own. NULL: that does not happen.
    bool (*dead)(const struct plugin_version *v);
    /// How often code of this runner wrote files, or did what may have, so far. NULL: not known.
    uint64_t (*writes)(const void *arg);
    void *arg;
};
