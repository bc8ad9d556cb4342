#pragma once

#include "config/config.h"
#include "loop/loop.h"

// The settings of the projects in which sessions work: `.afloat/config.toml` of each, where it is trusted,
// as a layer between the user's and the environment. See docs/internals/agent.md.

struct projects;
struct settings;
struct trust;
struct watcher;

/// Borrowed until projects_close(); `settings` until projects_free().
struct projects_opts {
    struct loop *loop;
    const struct home *home;
    struct settings *settings;
    struct trust *trust;
    struct watcher *watcher;
    /// The settings of a project have changed; the old ones are still valid during the call.
    void (*changed)(void *arg);
    /// A project was read or left: projects_add_faults() may give other faults than before.
    void (*judged)(void *arg);
    void *arg;
};

/// Follow trust and the hub's settings, with no project yet. Never NULL.
struct projects *projects_open(const struct projects_opts *o);
/// Stop watching and reading; calls of projects_enter() under way are still answered. NULL is allowed.
void projects_close(struct projects *p);
void projects_free(struct projects *p); // when the loop has ended; NULL is allowed

/// `real_dir` is the directory without links, borrowed; NULL: there is none, and nothing to leave.
typedef void projects_entered(void *arg, const char *real_dir);
/// A session works in `dir`, until projects_leave() with the real one. `done` (may be NULL) comes when the
/// settings of its project are read.
void projects_enter(struct projects *p, const char *dir, projects_entered *done, void *arg);
void projects_leave(struct projects *p, const char *real_dir);

/// The settings that count in the real directory `dir`: borrowed until `changed` was told. NULL: the hub's.
const struct config *projects_config(const struct projects *p, const char *dir);
/// Add the diagnostics of the files of the projects in which sessions work.
void projects_add_faults(const struct projects *p, struct config_diags *out);
/// Why the hub's settings or those of the project around `dir` let no session begin there, for the caller
/// to free; NULL: they do.
char *projects_refusal(const struct projects *p, const char *dir);
