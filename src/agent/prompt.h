#pragma once

#include "agent/skills.h"
#include "gen/gen.h"
#include "loop/work.h"

// The system prompt of a request:
//
//     instructions · where the session works · AGENTS.md, CLAUDE.md · notes of a bot · sections of plugins · skills
//
// Files are read once a turn, on a lane (prompt_files). Sections of plugins are collected at every step, because a step
// runs on the newest generation.

struct hook_ctx;
struct trust;

// ---- files --------------------------------------------------------------------------------------

enum { PROMPT_FILE_MAX = 64 * 1024, PROMPT_FILES_MAX = 256 * 1024 };

/// A file of instructions of the project: AGENTS.md or CLAUDE.md.
struct prompt_file {
    struct str path, text; // from the root; NUL-terminated
    char hash[80];
    bool foreign; // another user owns or may write it
};

struct prompt_files {
    struct skills skills; // the user's first, then the trusted ones of the project
    /// Instructions that are trusted, from the project's root down to the directory. The same text counts
    /// once, and all of them have PROMPT_FILES_MAX bytes at most.
    vec(struct prompt_file) instructions;
    // private
    char *home, *dir;
    const char *const *hide;
    struct trust_place *place;
    struct skills found;
    void (*done)(struct prompt_files *f, void *arg);
    void *arg;
    const struct trust *trust;
};

/// Read the files for a session in `dir`. Instructions that are a link to a file that tools may not read, as `hide`
/// (sandbox.hide) and `home` have it, are left out. `done` is called on the loop thread, never from inside, and may free `f`.
/// `trust` is used right before that.
struct prompt_files *prompt_files_read(struct lane *lane, const char *home, const char *dir,
                                       const char *const *hide, const struct trust *trust,
                                       void (*done)(struct prompt_files *f, void *arg), void *arg);
void prompt_files_free(struct prompt_files *f); // after `done`; NULL is allowed

// ---- sections of plugins ------------------------------------------------------------------------

struct prompt_section {
    int64_t priority;
    struct str text;
};

struct prompt_job;
/// All sections, by priority and then in the order of the units.
typedef void prompt_sections_cb(const struct prompt_section *list, size_t n, void *arg);

/// Collect the sections of `units`; those that are functions are called with `ctx`. A section that fails is left
/// out (its plugin's statistics have the error). Texts are in `a`. Returns NULL when `done` was called from
/// inside. The caller keeps the generation of the units pinned.
struct prompt_job *prompt_sections(struct gen_unit *const *units, size_t n, struct hook_ctx *ctx,
                                   struct arena *a, prompt_sections_cb *done, void *arg);
/// Cancel it: `done` is not called. Sections that cannot be cancelled end by themselves.
void prompt_cancel(struct prompt_job *j);

// ---- the whole ----------------------------------------------------------------------------------

struct prompt_parts {
    struct str instructions; // empty: the built-in ones
    struct str notes;        // of a bot; may be empty
    const char *working_dir, *sandbox;
    bool network;
    const struct prompt_file *files;
    size_t n_files;
    const struct prompt_section *sections;
    size_t n_sections;
    const struct skill *skills;
    size_t n_skills;
};
/// Append the system prompt.
void prompt_write(struct buf *out, const struct prompt_parts *p);
