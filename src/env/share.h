#pragma once

#include "env/env.h"

// Environments for many guests at once. Each *guest* has a directory and an outer environment; guests that
// have both in common share one coordinator, and with it one build and one watch. A guest whose directory
// belongs to no project with an environment has neither.
//
//     guest ──┐
//     guest ──┼── place: project and outer environment ── coordinator
//     guest ──┘
//
// All of it belongs to the loop thread. Callbacks are never made from inside a call; they may ask and
// forget. Callbacks of asks may free guests, the others must not; none may move a guest.

struct env_share;
struct env_guest;

/// A guest's environment has changed. Borrowed for the call.
struct env_applied {
    const char *project; // its root
    uint64_t generation, duration_ms;
    const char *const *changed; // files, as in `env_ready`
    size_t n_changed;
    // names of variables, sorted, NULL at the end
    const char *const *added;
    const char *const *replaced;
    const char *const *removed;
};

struct env_share_opts {
    struct loop *loop;
    struct watcher *watcher;
    const struct env_gate *gate;       // borrowed until the loop has ended
    const struct env_builder *builder; // NULL: env_builder
    uint64_t timeout_ms;               // see env_share_set_timeout()
    // of a project
    void (*building)(void *arg, const char *project, const struct env_building *m);
    void (*ready)(void *arg, const char *project, const struct env_ready *m);
    void (*log)(void *arg, const char *project, struct str line); // what a provider printed
    // of a guest: its new environment; a failed build, after which the old environment stays. That the
    // project is not trusted is reported once, until a build succeeds.
    void (*applied)(void *arg, void *guest, const struct env_applied *m);
    void (*failed)(void *arg, void *guest, const char *project, const struct env_failed *m);
    void *arg;
};

/// Copies `o`; never NULL.
struct env_share *env_share_open(const struct env_share_opts *o);
/// When no guest is left. Running builds are killed and free themselves. NULL is allowed.
void env_share_close(struct env_share *s);
/// The timeout of the places opened from now on.
void env_share_set_timeout(struct env_share *s, uint64_t ms);

/// Add a guest that works in `dir` with the environment `base` ("NAME=value", NULL-terminated); both are
/// copied. If the client runs in a shell that already has the project's environment, variables that its
/// user changed there keep their values. Callbacks get `arg`. Never NULL; end it with env_guest_free().
struct env_guest *env_guest_new(struct env_share *s, const char *dir, const char *const *base,
                                void *arg);
/// No callback follows. The last guest of a place takes its watch along. NULL is allowed.
void env_guest_free(struct env_guest *g);
/// Change directory or environment; nothing happens when both are as before. Pending asks are answered
/// from there.
void env_guest_move(struct env_guest *g, const char *dir, const char *const *base);

/// The environment to run a program in; borrowed for the call.
typedef void env_guest_fn(void *arg, const char *const *vars);
/// Ask for it. The first build is waited for, as long as a build may take; then files are checked, and a
/// running build gets a moment, so that a save just before counts. `done` comes once, later.
void env_guest_ask(struct env_guest *g, env_guest_fn *done, void *arg);
/// Drop the asks made with this `arg`.
void env_guest_forget(struct env_guest *g, void *arg);
