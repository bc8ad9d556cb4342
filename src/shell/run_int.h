#pragma once

#include "env/env.h"
#include "loop/loop.h"
#include "shell/progress.h"
#include "shell/shell.h"

// One `afloat shell` on its way: found, built, tasks run, then a program in our place (run.c) or a
// session on the terminal (live.c).

struct live;
struct report;

struct run {
    const struct shell_opts *o; // borrowed
    struct loop loop;
    struct watcher *watcher; // NULL without reloads
    struct env_project project;
    struct env_coord *coord;
    struct env_result *built;  // as the coordinator built it; NULL: never
    struct env_result *result; // the same with the exports of tasks: what the shell gets
    struct arena arena;        // of the exports and `left`
    struct env_var *exports;
    size_t n_exports;
    char *failure; // text of the last failure; NULL when the last build was good
    int failure_code;
    char **changed; // inputs that caused the last build
    size_t n_changed;
    bool settled;     // the first build is over
    bool interrupted; // Ctrl-C before the shell
    bool interactive; // a session on the terminal follows
    bool terminal;    // the progress line has a terminal
    struct progress progress;
    struct env_tasks *tasks;
    bool tasks_over, tasks_ok;
    vec(const char *) left; // names of the tasks for the shell itself, in order; of the arena
    struct live *live;      // NULL until the session runs
    struct report *report;  // to the hub; the same
};

/// Make `result` of `built` and the exports.
void run__settle_result(struct run *r);
/// Add what tasks exported; later ones win.
void run__add_exports(struct run *r, const struct env_tasks_end *end);

/// Build the first environment and run its tasks, with progress. What came of it is in `r`.
void first__build(struct run *r);

/// Run the session; returns the exit code or a negative code.
int live__run(struct run *r, struct err *e) MUST_CHECK;
/// Messages of the coordinator while the session runs; `r` has taken them in.
void live__building(struct live *v);
void live__ready(struct live *v);
void live__failed(struct live *v);
void live__unchanged(struct live *v); // a reload was asked for, and there was nothing to build

/// True when what runs without a session is a shell that a person types into.
bool become__is_interactive(const struct run *r);
/// Become the program, the string's shell or the shell. Returns only on failure: the exit code, or a
/// negative code with `e`.
int become__run(const struct run *r, struct err *e) MUST_CHECK;

/// The shell to run, by option, $SHELL, or bash; and its dialect.
const char *run__shell(const struct shell_opts *o, enum env_dialect *d);

/// The variables that tell programs where they are, on top of the outer environment and the result.
/// One block, NULL-terminated; caller frees with free(). `more` is NULL-terminated, or NULL.
char **run__environ(const struct run *r, const char *const *more);
