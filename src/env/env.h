#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/vec.h"

// The environment of a project: found, built, watched, merged into a shell.
//
//     coordinator ── build ──> builder                   (env.toml, script, direnv, devenv, nix, mise)
//         │  building, ready, failed
//         v
//     the owner of a shell: env_session_render() ──> text for bash, zsh, fish or sh
//
// All of it belongs to the loop thread. Nothing here knows a PTY or a terminal.

struct loop;
struct watcher;
struct lane;
struct jw;

// ---- the project -----------------------------------------------------------------------------

/// Where the environment of a directory is described.
struct env_project {
    char *root; // real path
    char *name; // its last part
    bool found; // some file describes an environment; false: an empty one may come later
};

/// Find the nearest directory from `dir` up that holds `.afloat/env.toml`, `devenv.nix`, `flake.nix`,
/// `.envrc` or `mise.toml`; without one the nearest with `.git`, else `dir` itself, and `found` is
/// false. Blocks. ERR_NOT_FOUND when `dir` does not exist. End it with env_project_fini().
int env_project_find(struct env_project *p, const char *dir, struct err *e) MUST_CHECK;
void env_project_fini(struct env_project *p);

// ---- a result --------------------------------------------------------------------------------

struct env_var {
    const char *name;  // [A-Za-z_][A-Za-z0-9_]*
    const char *value; // any bytes but NUL
};

/// Elements for a variable that is a list with colons; no element holds a colon or is empty.
struct env_list {
    const char *name;
    const char **items;
    size_t n;
};

enum env_kind { ENV_FILE, ENV_DIR, ENV_MISSING };

/// A file that the result depends on. `kind` is what it was when it was looked at.
struct env_input {
    const char *path; // absolute; of an ENV_DIR it may be a pattern, see env/pattern.h
    enum env_kind kind;
    bool guess;  // not looked at: `kind` is only likely
    bool hashed; // `hash` is of the bytes that were used; false: only another program knows
    uint8_t hash[SHA256_SIZE];
};

/// One `[[task]]` of env.toml; strings live in the result.
struct env_task {
    const char *name;
    const char *run;    // for `sh -c`
    const char *status; // the same; exit 0 means that there is nothing to do. NULL: none
    const char *cwd;    // absolute
    const char **after; // NULL-terminated names; `before` of others is already turned around
    const char *
        *inputs; // NULL-terminated absolute paths, which may be patterns as in env/pattern.h
    struct env_var *env;
    size_t n_env;
    bool in_shell; // run by the session inside the interactive shell
};

/// What a build found: differences from the environment it was given. Shared: env_result_ref().
struct env_result {
    unsigned refs;
    struct arena arena;
    uint64_t generation; // of the coordinator: every build has a higher one
    uint64_t duration_ms;
    const char *provider;          // "toml", "script", "direnv", "devenv", "nix", "mise"
    vec(struct env_var) set;       // by name; never a variable that is also in prepend or append
    vec(const char *) unset;       // by name
    vec(struct env_var) functions; // for bash: a name, and the text that defines it
    vec(struct env_list) prepend, append;
    vec(const char *) messages; // for the user, one line each
    vec(struct env_task) tasks; // in an order that respects `after`
};

/// Empty, with one reference; each reference ends with env_result_unref() (NULL is allowed).
struct env_result *env_result_new(void);
struct env_result *env_result_ref(struct env_result *r);
void env_result_unref(struct env_result *r);

/// The environment of a program that runs in it: `base` ("NAME=value", NULL-terminated) with the
/// result applied. One block, NULL-terminated; the caller frees it with free(). `r` may be NULL.
char **env_result_environ(const struct env_result *r, const char *const *base);

// ---- the coordinator -------------------------------------------------------------------------

enum env_state { ENV_IDLE, ENV_BUILDING, ENV_READY, ENV_FAILED };

// Messages, borrowed for the call. `changed` are the inputs that caused it, relative to the project root if
// they are inside the project.

struct env_building {
    uint64_t generation;
    const char *const *changed;
    size_t n_changed;
};

struct env_ready {
    struct env_result *result; // env_result_ref() to keep it
    const char *const *changed;
    size_t n_changed;
};

struct env_failed {
    uint64_t generation;
    uint64_t duration_ms;
    int code;         // ERR_DENIED: not trusted
    const char *text; // one or more lines for the user, with the last output
    const char *const *changed;
    size_t n_changed;
};

/// Write the member `changed_files`: the first of `files`, up to 16 KiB and one name. A list of all, after a change of
/// branch say, would make a report or an event too large, and it would be lost.
void env_write_changed(struct jw *w, const char *const *files, size_t n);

/// Called from the loop, never from inside a call of ours. A callback may call any function below,
/// env_coord_close() too; only `log` may not.
struct env_coord_cb {
    void (*building)(const struct env_building *m, void *arg);
    void (*ready)(const struct env_ready *m, void *arg);
    void (*failed)(const struct env_failed *m, void *arg);
    void (*log)(struct str line, void *arg); // what a provider printed; may be NULL
    void (*unchanged)(void *arg); // env_coord_reload() found nothing changed; may be NULL
};

enum { ENV_TIMEOUT_MS = 600000 };

struct env_builder; // env/build.h
struct env_gate;    // env/gate.h: decides whether the project's files may be used

struct env_coord_opts {
    struct loop *loop;
    struct watcher *watcher;           // NULL: nothing is watched (`--no-reload`)
    struct lane *lane;                 // for reading files; NULL: one of its own
    const char *root;                  // env_project.root; copied
    const char *const *base;           // the outer environment; copied
    const struct env_gate *gate;       // borrowed until env_coord_close(); not NULL
    const struct env_builder *builder; // NULL: env_builder
    uint64_t timeout_ms;               // of one build; 0: ENV_TIMEOUT_MS
    struct env_coord_cb cb;
    void *arg;
};

struct env_coord;

/// Make one; it is idle until env_coord_reload(). Never NULL. End it with env_coord_close().
struct env_coord *env_coord_open(const struct env_coord_opts *o);

/// Build now. Without `force` only when an input differs from what the last build saw, or there was no
/// build; files are checked for that even if the watcher has not seen the last save. True when a build is
/// under way, false while checking: `building` or `unchanged` follows. Works while paused too.
bool env_coord_reload(struct env_coord *c, bool force);
/// While paused, changes are noted, not built; a running build continues. Resuming builds if an input
/// differs from what the last build saw.
void env_coord_pause(struct env_coord *c);
void env_coord_resume(struct env_coord *c);
bool env_coord_is_paused(const struct env_coord *c);
/// Kill a running build (Ctrl-C at the first one); it is reported as failed.
void env_coord_interrupt(struct env_coord *c);
/// End it and its build; no callback runs after this returns. Memory goes when the build is gone.
void env_coord_close(struct env_coord *c);

/// The state; the last good result (borrowed, or NULL); the text of the last failure, or NULL.
enum env_state env_coord_get_state(const struct env_coord *c);
struct env_result *env_coord_get_result(struct env_coord *c);
const char *env_coord_get_error(const struct env_coord *c);
/// The inputs that are watched, for `env inputs` and status lines; `*n` of them, borrowed until the
/// loop runs again.
const struct env_input *env_coord_get_inputs(struct env_coord *c, size_t *n);

// ---- merging into a shell --------------------------------------------------------------------

enum env_dialect { ENV_BASH, ENV_ZSH, ENV_FISH, ENV_SH };

/// By the name of a program: "zsh", "/usr/bin/fish", "-bash". False when we do not know it.
bool env_dialect_of(const char *program, enum env_dialect *out);

/// The state of one shell: the outer values, and what was offered since it last acknowledged.
struct env_session;

/// `outer` is the environment that the shell started with (copied): removed variables return to it.
struct env_session *env_session_new(const char *const *outer);
void env_session_free(struct env_session *s); // NULL is allowed

/// Append the text that takes the shell from what it acknowledged, or was offered since, to `r` (NULL:
/// undo everything). To be evaluated in a shell that has the functions of
/// env_render_prelude(), by `__afloat_load FILE`. Variables that the user changed stay as they are,
/// with one notice each. Also sets and exports AFLOAT_ENV_GENERATION (taken back: unsets it).
void env_session_render(struct env_session *s, const struct env_result *r, enum env_dialect d,
                        struct buf *out);
/// The shell has evaluated the text rendered for the result with this generation (0: for NULL).
void env_session_applied(struct env_session *s, uint64_t generation);

/// The functions that rendered texts need, as text for the shell's rc file:
///
///     __afloat_load FILE      evaluate a rendered file if it is whole (length and last line); status
///                             0 when it was evaluated, 1 when it is damaged, 2 when it cannot be read
///     __afloat_front          variable, not exported: our elements in front of PATH, with colons
///     __afloat_refront        put them in front of PATH again where one is missing or moved back
///
/// They fork nothing, and leave `$?`, IFS and options alone (callers keep `$?` themselves).
void env_render_prelude(enum env_dialect d, struct buf *out);

/// Write `text` as `dir/name` in one step. `dir` must be our own directory that no other user may enter
/// (no link, our user, mode 0700): ERR_DENIED otherwise. On failure nothing is left behind.
int env_render_write(const char *dir, const char *name, struct str text, struct err *e) MUST_CHECK;

// ---- tasks -----------------------------------------------------------------------------------

enum env_task_state {
    ENV_TASK_STARTED,
    ENV_TASK_OUTPUT, // `text` is a line it printed
    ENV_TASK_DONE,
    ENV_TASK_SKIPPED,  // `status` said so, or no input changed
    ENV_TASK_FAILED,   // `text` says why
    ENV_TASK_BLOCKED,  // not run: one that it comes after failed; `text` names it
    ENV_TASK_IN_SHELL, // left for the session: reported when all others are over
};

struct env_task_progress {
    const struct env_task *task;
    enum env_task_state state;
    const char *text; // or ""
    size_t done, total;
};

/// All tasks are over. `exports` go on top of the result for the shell and for later tasks.
struct env_tasks_end {
    bool ok; // none failed, none was cancelled
    const struct env_var *exports;
    size_t n_exports;
    const char *failed; // name of the first that failed, or NULL
};

struct env_executor; // env/task.h

struct env_tasks_opts {
    struct loop *loop;
    struct env_result *result; // its tasks and its environment; referenced
    const char *const *base;   // the outer environment; copied
    const char *root;          // of the project; copied
    const char *only;          // run this task and what it comes after; NULL: all
    bool in_shell;             // run in_shell tasks too (for `env task NAME` and without a shell)
    bool force;                // run even if `status` or unchanged inputs would skip them
    bool again;                // only tasks with inputs, those that changed; none for the shell
    const struct env_executor *executor; // NULL: processes
    void (*progress)(const struct env_task_progress *p, void *arg);
    void (*end)(const struct env_tasks_end *end, void *arg); // once, unless closed before
    void *arg;
};

struct env_tasks;

/// Run the tasks; independent ones run at the same time. ERR_NOT_FOUND when there is no task
/// `only`. The caller ends it with env_tasks_close(), also after `end`, also inside it.
int env_tasks_open(struct env_tasks **out, const struct env_tasks_opts *o,
                   struct err *e) MUST_CHECK;
/// TERM to all running tasks, KILL after a while; `end` follows with `ok` false. For Ctrl-C.
void env_tasks_cancel(struct env_tasks *t);
void env_tasks_close(struct env_tasks *t); // cancels silently; NULL is allowed

/// `r`, built on `base`, with `vars` on top: what tasks exported. A new result with the same generation
/// and without messages and tasks.
struct env_result *env_result_with(const struct env_result *r, const char *const *base,
                                   const struct env_var *vars, size_t n);
