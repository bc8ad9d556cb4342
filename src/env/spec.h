#pragma once

#include "base/toml.h"
#include "env/env.h"
#include "env/vars.h"

// A project's environment as its files describe it, read and checked, nothing of it evaluated or run.
// Plain memory: read on a worker, handed over whole.

enum {
    ENV_SPEC_FILE_MAX = 1 << 20, // bytes of one file
    ENV_SPEC_FILES = 64,         // env.toml with its includes; also dotenv files
    ENV_SPEC_WATCH = 1024,       // entries of `watch`
};

struct env_dotenv {
    const char *path; // as written, for messages
    struct str text;
};

/// env.toml or one file that it includes.
struct env_unit {
    const char *path; // relative to the root if it is below it, for messages
    const struct toml *toml;
    vec(struct env_dotenv) dotenv; // those that exist
};

struct env_spec {
    struct arena arena;
    const char *root;             // absolute
    vec(struct env_unit) units;   // in the order of evaluation: later wins
    vec(struct env_input) inputs; // every file opened or missed, each once
    const char *script;           // absolute; NULL: none
    const char *delegate;         // "direnv", "devenv", "nix", "mise"; NULL: none
    const char *delegate_file;    // absolute: what it was chosen for
    bool delegate_found;          // because that file is there; no setting names it
    bool described;               // some file of ours (env.toml) exists
    struct box *box;              // programs of the project run in it; NULL: as we do
    bool wary;                    // a program without a box must not be one of the project's
    bool exact;                   // only bytes that were trusted may run, those of `allowed`
    vec(const char *) allowed;    // absolute
    vec(struct env_task) tasks;   // in an order that respects `after`
};

/// Read `root`/.afloat/env.toml with all it includes and reads, and choose the delegate. `base` is the
/// outer environment. Blocks. On failure `e` reads "env.toml: line 3, column 7: ..." and the spec still
/// holds the inputs seen so far, so that mending the file can be noticed. The caller ends it with
/// env_spec_fini(), on failure too.
int env_spec_read(struct env_spec *s, const char *root, const struct env_vars *base,
                  struct err *e) MUST_CHECK;
void env_spec_fini(struct env_spec *s);

/// Set in `vars` what env.toml says, on top of what they hold. Pure: touches no file.
int env_spec_eval(const struct env_spec *s, struct env_vars *vars, struct err *e) MUST_CHECK;

/// Note `path` as an input, as it is on disk now but without a hash. Blocks.
void env_spec_add_input(struct env_spec *s, const char *path);
/// Was the file read, and not only named as one to watch?
bool env_spec_has_read(const struct env_spec *s, const char *path);
