#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "git/git.h"
#include "loop/proc.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "sandbox/box.h"

// A job is a table of steps, run one after the other by job.c. Each operation has its own struct with a
// `struct git_job` as first member.

// Committer where the user has set no name.
#define GIT_OUR_NAME  "afloat"
#define GIT_OUR_EMAIL "afloat@localhost"

/// One step: a command that `begin` asks for with job__run(), or `work` on a thread, and then `end`. When
/// `begin` asks for no command the step is over. A negative return ends the job with that failure.
struct git_step {
    const char *name;                              // NULL ends the table
    void (*begin)(struct git_job *j);              // loop thread; may be NULL
    int (*work)(struct git_job *j, struct err *e); // instead of a command: a thread of the lane
    int (*end)(struct git_job *j, struct err *e);  // loop thread, afterwards; may be NULL
};

// clang-format off
#define STEP_COMMAND(name, begin, end) {name, begin, NULL, end}
#define STEP_WORK(name, work)          {name, NULL, work, NULL}
#define STEP_THINK(name, end)          {name, NULL, NULL, end}
#define STEPS_END                      {NULL, NULL, NULL, NULL}
// clang-format on

/// Where commands of a job run. All is borrowed from the job's arena.
struct git_place {
    const char *dir;       // working directory
    const char *git_dir;   // NULL: as git finds it from `dir`
    const char *work_tree; // with `git_dir`
    const char *index;     // an index file of our own, NULL for the usual one
    const char *objects;   // more objects to read, NULL for none
    struct box *box;       // owned; NULL for none
};

/// The command of a step: filled in by job__run() and the step, read back in `end`.
struct git_command {
    vec(const char *) argv, env;
    struct str in;     // for its stdin, borrowed from the arena
    int in_fd, out_fd; // or a file for its stdin, its stdout; borrowed; 0 for none
    uint64_t max_file; // bytes that it may write to a file; 0: any
    size_t max;        // of `out`
    bool cut_ok;       // more than `max` is cut and told by `cut`; else it is ERR_TOO_LARGE
    bool may_fail;     // an exit code but 0 is for `end` to judge
    // after exit code 0: gets the id of the commit or tree that it printed; may be NULL
    const char **id;
    const char *gone; // another exit code means that this is gone: ERR_NOT_FOUND; needs `may_fail`
    bool outlives_us; // it writes the user's files: it may finish after we have died
    bool far;         // it talks to a remote, which may never answer: see git_hurry()
    struct buf out;   // what it printed
    struct buf grumble; // the beginning of its stderr
    int code;
    bool wanted, cut;
};

/// What import.c brings from a quarantine into the repository.
struct git_import {
    const char *common;    // the repository
    const char *since;     // a commit that the repository has
    struct git_names tips; // commits to bring; none: nothing is done
    int fd;                // of the pack; 0: none
    uint64_t n_objects;
};

struct git {
    struct loop *loop;
    struct lane *lane;
    struct git_job *jobs;
    struct arena arena; // of what follows; all but the first and the last may be NULL
    const char *program, *path, *user_home, *xdg_config_home, *home, *runtime, *tmp_dir;
    uint64_t timeout_ms, far_ms; // of a command; of one that talks to a remote
    bool closing;
};

struct git_job {
    struct git *git;
    struct git_job *next, **link; // among git->jobs
    struct arena arena;
    const struct git_step *steps, *undo; // `undo` may be NULL; its failures are only logged
    size_t at;
    void (*report)(struct git_job *j, int status, const struct err *e);
    struct git_place place;
    struct git_command cmd;
    struct git_import import;
    struct proc *proc;
    struct timer limit;
    mode_t umask;
    uint64_t patience_ms; // of a command that talks to a remote
    int status;           // the first failure
    struct err err;
    struct err step_err; // of the step under way, also on the lane
    int step_status;
    bool undoing, cancelled, settled;
    bool moved;       // the step has chosen what comes next
    const char *turn; // what it holds, or waits for
    bool holds, waiting;
    char *tmp; // a directory of this job alone, or NULL; removed at the end
    vec(const char *) notes;

    // found by LOOK_STEPS
    struct git_look look;
    const char *cdup;                   // from the directory to the root, as git says it
    const char *user_name, *user_email; // NULL: not configured

    struct str refs; // of the repository, `ID NAME` lines; by REFS_STEP

    struct {
        const char *rev;    // what names the work; begins as the branch
        const char *rescue; // "": none
        const char *tree;   // of both; NULL: nothing to join
        bool lenient;
    } work; // of JOIN_STEPS

    // found by STATE_STEPS
    const char *tree;        // the checkout as it is
    bool changed;            // it is not as in `look.head`
    struct git_names nested; // untracked repositories in it, which are in no tree
};

// ---- job.c -----------------------------------------------------------------------------------

/// A job of `size` bytes, zeroed; it begins after the current callback. `undo` may be NULL.
void *job__new(struct git *g, size_t size, const struct git_step *steps,
               const struct git_step *undo,
               void (*report)(struct git_job *j, int status, const struct err *e));
/// Continue with another table, from its first step.
void job__become(struct git_job *j, const struct git_step *steps);
/// The last thing that a step does: wait until no other job holds `key`, then hold it until
/// job__release() or the job's end.
void job__take_turn(struct git_job *j, const char *key);
void job__release(struct git_job *j);
/// From here on the outcome is certain: a cancel comes too late.
void job__settle(struct git_job *j);

/// The step runs `git VERB ARG...`; NULL at the end.
void job__run(struct git_job *j, ...) __attribute__((sentinel));
void job__arg(struct git_job *j, const char *arg);
void job__env(struct git_job *j, const char *name, const char *value);
/// The command takes no locks just to remember what it found.
void job__only_reads(struct git_job *j);
/// The step asks for the commit that `rev` names: exit code 0, see git_command.id, or another code.
void job__ask_commit(struct git_job *j, const char *rev);
/// Ask for the commit that is checked out; job__take_head() gives it, or `fallback` when there is none, and has STATE_STEPS
/// compare with it.
void job__ask_head(struct git_job *j);
const char *job__take_head(struct git_job *j, const char *fallback);
/// The step asks whether `old` is an ancestor of `commit`: exit code 0, or 1 for no.
void job__ask_ancestor(struct git_job *j, const char *old, const char *commit);
/// Hand `names` to its stdin, each with a NUL.
void job__feed(struct git_job *j, const struct git_names *names);
/// What the command printed, without the newline at its end, copied.
const char *job__line(struct git_job *j);
/// The same, when it is the id of a commit or tree; ERR_CORRUPT otherwise.
int job__id(struct git_job *j, const char **out, struct err *e) MUST_CHECK;
/// Is this the line in which git says what is wrong?
bool job__is_fault(struct str line);
/// What that line says; without one the first line, borrowed from the command.
struct str job__fault(const struct git_job *j);
/// It has failed: `what` and what git said.
int job__grumble(struct git_job *j, int code, const char *what, struct err *e);

char *job__dup(struct git_job *j, const char *z);
const char *const *job__dup_list(struct git_job *j, const char *const *list); // never NULL
void job__note(struct git_job *j, const char *fmt, ...) PRINTF_LIKE(2, 3);
struct git_names job__notes(struct git_job *j);
/// Names in `text` that end with NUL, `max` at most; copied.
struct git_names job__names(struct git_job *j, struct str text, size_t max);
/// `text` in double quotes, as git reads it in settings and in lists of object directories. Caller frees.
char *job__quote(const char *text);
bool job__is_id(const char *id); // of a commit or tree: 40 or 64 hex digits

/// A lane step: make `j->tmp`.
int job__make_tmp(struct git_job *j, struct err *e);

// ---- look.c ----------------------------------------------------------------------------------

// clang-format off
#define LOOK_STEPS                                              \
    STEP_COMMAND("look", git__look_begin, git__look_end),               \
    STEP_COMMAND("branch", look__ask_branch, look__take_branch),\
    STEP_COMMAND("settings", look__ask, look__read),            \
    {"files", NULL, look__files, look__go_root}
// clang-format on
void git__look_begin(struct git_job *j); // looks at j->place.dir
int git__look_end(struct git_job *j, struct err *e);
void look__ask_branch(struct git_job *j);
int look__take_branch(struct git_job *j, struct err *e);
void look__ask(struct git_job *j);
int look__read(struct git_job *j, struct err *e);
int look__files(struct git_job *j, struct err *e);
int look__go_root(struct git_job *j, struct err *e); // j->place.dir becomes the root
/// ERR_UNSUPPORTED, with the way out, unless it is a checkout with at least one commit.
int look__need_commit(struct git_job *j, struct err *e);
/// The command makes a commit: it has the user's name, or one of ours where there is none.
void look__identity(struct git_job *j);

// ---- state.c: a checkout as it is, as a tree ---------------------------------------------------

// clang-format off
#define STATE_STEPS                                                \
    STEP_WORK("temporary index", state__copy_index),               \
    STEP_COMMAND("add", state__add, state__added),                 \
    STEP_COMMAND("changes", state__ask_changes, state__changes),   \
    STEP_COMMAND("nested", state__drop_nested, NULL),              \
    STEP_COMMAND("write tree", state__write, NULL)
// clang-format on
int state__copy_index(struct git_job *j, struct err *e);
void state__add(struct git_job *j);
int state__added(struct git_job *j, struct err *e);
void state__ask_changes(struct git_job *j);
int state__changes(struct git_job *j, struct err *e);
void state__drop_nested(struct git_job *j);
void state__write(struct git_job *j);

// ---- quarantine.c: a git directory for one worktree ----------------------------------------------

struct quarantine {
    const char *dir;          // its own
    const char *work_tree;    // the worktree
    const char *common;       // the repository
    const char *git_dir;      // of the user's checkout
    const char *registration; // COMMON/worktrees/ID
    const char *branch;
    const char *tip;   // where the branch is
    const char *start; // any id
};

/// What a quarantine needs to know of the repository's refs; the place is the repository.
#define REFS_STEP STEP_COMMAND("refs", quarantine__ask_refs, quarantine__take_refs)
void quarantine__ask_refs(struct git_job *j);
int quarantine__take_refs(struct git_job *j, struct err *e);
/// Make it anew, after REFS_STEP and look__read(), and let the worktree's `.git` lead there. Blocks.
int quarantine__make(const struct git_job *j, const struct quarantine *q, struct err *e) MUST_CHECK;
/// Put right what a session may have broken; `*broken` when it must be made anew. Blocks.
int quarantine__put_right(const struct quarantine *q, bool *broken, struct err *e) MUST_CHECK;

// ---- import.c: from a quarantine into the repository -----------------------------------------------

/// Steps of a job whose `import` is filled in. The first ones run in the place that the job has, the last
/// one in the repository, which the place is from then on.
#define IMPORT_STEPS                                                                               \
    STEP_WORK("pack file", import__make_file), STEP_COMMAND("pack", import__pack, NULL),           \
        STEP_WORK("check pack", import__check),                                                    \
        STEP_COMMAND("take in", import__take, import__taken)
int import__make_file(struct git_job *j, struct err *e);
void import__pack(struct git_job *j);
int import__check(struct git_job *j, struct err *e);
void import__take(struct git_job *j);
int import__taken(struct git_job *j, struct err *e);

// ---- own.c: a worktree of ours, after a model has worked there -----------------------------------

/// Lane steps. Find its registration and make `j->place` it, with a box: own__enter() while a session may
/// work there; own__take_over() when none does, repairing what a session may have broken. Then `*broken`
/// says that its quarantine must be made anew before own__enter().
int own__enter(struct git_job *j, const struct git_worktree *w, struct err *e) MUST_CHECK;
int own__take_over(struct git_job *j, const struct git_worktree *w, bool *broken,
                   struct err *e) MUST_CHECK;
/// Lane steps: own__enter() with a copy of its index, so that git add changes nothing there; and the end
/// of that copy, also for undo tables.
int own__peek(struct git_job *j, const struct git_worktree *w, struct err *e) MUST_CHECK;
int own__peeked(struct git_job *j, struct err *e);
/// A lane step: make its quarantine anew, with the branch where the repository has it.
int own__remake(struct git_job *j, const struct git_worktree *w, struct err *e) MUST_CHECK;
/// The registration of `dir`, or NULL. Caller frees. Blocks.
char *own__find(const char *common, const char *dir);
/// Remove a worktree, its quarantine (NULL: none) and then its registration; without git, which would
/// read what is in there. It is fine when any is gone. Blocks.
int own__forget(const struct git_worktree *w, struct err *e) MUST_CHECK;
struct git_worktree own__dup(struct git_job *j, const struct git_worktree *w);

// ---- take.c: what applying and merging have in common --------------------------------------------

/// A job whose work is on a branch and a rescue branch makes one commit of both, which no ref names.
/// The steps need `work` of the job; afterwards `work.rev` names the whole of it. When the two do not go
/// together it is ERR_CONFLICT, or with `lenient` the branch alone.
// clang-format off
#define JOIN_STEPS                                        \
    STEP_COMMAND("join", join__merge, join__merged),      \
    STEP_COMMAND("joined", join__commit, NULL)
// clang-format on
void join__init(struct git_job *j, const struct git_worktree *w, bool lenient);
void join__merge(struct git_job *j);
int join__merged(struct git_job *j, struct err *e);
void join__commit(struct git_job *j);

struct take_job {
    struct git_job j;
    const char *branch, *start;
    const char *merged; // the tree of a merge without conflicts
    struct git_taken out;
    git_take_cb *cb;
    void *arg;
};

void *take__new(struct git *g, size_t size, const struct git_step *steps,
                const struct git_step *undo, const char *root, const struct git_worktree *w,
                git_take_cb *cb, void *arg);
/// The command merges two commits without touching anything; afterwards `merged` is the tree, or it
/// is ERR_CONFLICT with the paths.
void take__merge(struct take_job *t, const char *ours, const char *theirs);
int take__merged(struct git_job *j, struct err *e);
/// The command lists what differs between two trees; afterwards `out.paths`.
void take__compare(struct take_job *t, const char *from, const char *to);
int take__compared(struct git_job *j, struct err *e);

// ---- files.c: what needs no git --------------------------------------------------------------

/// Copy a regular file with its mode and times; `flags` for opening it. Nothing there is fine: then
/// there is no copy either.
int files__copy(const char *from, const char *to, int flags, struct err *e) MUST_CHECK;
/// A regular file in `from_dir`, or a link, to the same place in `to_dir`. Never leaves either.
int files__carry(const char *from_dir, const char *to_dir, const char *name,
                 struct err *e) MUST_CHECK;
/// A link `dir`/`name` that leads to `target`; directories on the way are made.
int files__link(const char *dir, const char *name, const char *target, struct err *e) MUST_CHECK;
void files__measure(const char *dir, struct git_measure *m);
/// Remove what is no file, directory or link and has a name that git opens (`.gitignore` ...): to
/// open a FIFO waits for ever.
void files__disarm(const char *dir);
