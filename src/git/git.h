#pragma once

#include "base/err.h"
#include "base/str.h"
#include "loop/loop.h"

// Everything that runs git: worktrees for runs, the commit a run starts from, what came of it, and
// taking that over. It knows nothing of runs or bots: directories, branches and commits come from
// the caller, who keeps them.
//
//     git_look ──> git_add ──> (a session works there) ──> git_commit ──> git_remove
//                                   │                         │
//                                   └── git_diff, git_measure └── git_diff, git_apply, git_merge
//
// A call starts a job and returns at once. Its callback comes exactly once, on the loop thread,
// never from inside the call. What a job takes (paths, lists) is only read during the call; what it
// gives is borrowed for the callback. A result is never NULL; after a failure it is zeroed but for
// what its comment says. Paths are bytes: they may hold anything but NUL.
//
// Two kinds of trees: the user's checkout, where git runs as the user would run it, and a worktree
// in which a model has worked. Everything in the second may be hostile, so git runs there in a box
// (sandbox/box.h), with the repository that *we* registered, not with what the tree says. Nothing in
// that box can write the user's repository: commits made there are in a quarantine, and git_commit()
// checks them and takes them in.
//
// All of these functions belong to the loop thread. docs/internals/git.md says how and why.

struct git;
struct git_job;

/// Strings are copied. `home` and `runtime` are AFLOAT_HOME and AFLOAT_RUNTIME (for the box).
struct git_config {
    struct loop *loop;
    const char *program;                     // NULL: "git", found in `path`
    const char *path;                        // PATH for git and what it starts; NULL: our own
    const char *user_home, *xdg_config_home; // HOME and XDG_CONFIG_HOME; NULL: our own, if any
    const char *home, *runtime;
    /// For temporary files, of this alone: made when missing; what a killed hub left there goes.
    const char *tmp_dir;
    uint64_t timeout_ms; // of one git command; 0: five minutes
};

/// Fails when `tmp_dir` cannot be made.
int git_open(struct git **out, const struct git_config *c, struct err *e) MUST_CHECK;
/// Jobs under way are cancelled, their callbacks still come; then the memory goes. NULL is allowed.
void git_close(struct git *g);

/// End a job early: its command is killed, what it has begun is taken back, then its callback comes
/// with UV_ECANCELED (or with its result, when that was already certain).
void git_cancel(struct git_job *j);

/// The caller stops soon: a command that waits for a remote has `ms` from now on, and so has each later one.
void git_hurry(struct git *g, uint64_t ms);

/// How long each of its commands may wait for a remote, for a job that was just started; else as long as any command.
void git_set_patience(struct git_job *j, uint64_t ms);

/// The umask of its commands, for a job that was just started; else that of proc_umask().
void git_set_umask(struct git_job *j, mode_t mask);

/// Names as git gives them. `cut`: there are more.
struct git_names {
    const char *const *p;
    size_t n;
    bool cut;
};

// ---- what is this directory? -----------------------------------------------------------------

struct git_look {
    const char *root;      // of this checkout, real path; "" when bare
    const char *git_dir;   // of this checkout, real path
    const char *common;    // the repository itself: the same for all its worktrees. Real path
    const char *main_root; // the main checkout; of a bare repository `common`
    const char *branch;    // "main"; "" when detached
    const char *head;      // commit; "" when unborn
    const char *tree;      // of `head`
    bool unborn, bare;
    bool linked;         // a linked worktree
    bool has_submodules; // a .gitmodules at the root
    const char *doing;   // "merge", "rebase", ... an operation in progress; "" when none
    bool sparse;
};

typedef void git_look_cb(void *arg, int status, const struct err *e, const struct git_look *r);
/// ERR_NOT_FOUND when `dir` is in no repository, ERR_UNSUPPORTED when there is no git.
struct git_job *git_look(struct git *g, const char *dir, git_look_cb *cb, void *arg);

// ---- a worktree ------------------------------------------------------------------------------

enum git_from {
    GIT_FROM_STATE,  // the user's checkout as it is, uncommitted changes included
    GIT_FROM_COMMIT, // `base`
    GIT_FROM_BRANCH, // `branch` exists: take it up again
};

struct git_add {
    const char *repo;   // a directory of the user's checkout
    const char *dir;    // absolute; must not exist yet
    const char *branch; // "afloat/reviewer-1a2b3c4d"
    enum git_from from;
    const char *base; // GIT_FROM_COMMIT: anything that names a commit; NULL: HEAD
    /// Ignored files to copy: globs as in .gitignore (`.env`, `config/*.local`). May be NULL, as
    /// may the next; both end with NULL.
    const char *const *include;
    /// Paths from the root that become links to the user's own (`node_modules`), where those exist
    /// and git has nothing there.
    const char *const *link;
    /// GIT_FROM_BRANCH: also when another worktree has the branch; that one belongs to a hub that is lost.
    bool steal;
    /// Otherwise: the branch may be there already; it is replaced.
    bool over;
    /// A directory for the worktree's own repository, since a command in a box cannot commit to the user's. It must
    /// not exist yet. NULL: a worktree as git itself makes it.
    const char *quarantine;
};

struct git_added {
    const char *dir;         // real path
    const char *common;      // the repository, as in git_look
    const char *root;        // of the user's checkout
    const char *start;       // where the work begins: its commits come after this one
    const char *base;        // the user's commit beneath; the same as `start` when clean
    const char *base_branch; // "" when detached
    bool dirty;              // `start` is a commit of ours, trailer `Afloat-Start: yes`
    struct git_names notes;  // lines for people: what could not be taken along, and why
};

typedef void git_add_cb(void *arg, int status, const struct err *e, const struct git_added *r);
/// Make a worktree. The user's files, index, refs and logs stay as they are, but for the new branch.
/// After a failure nothing is left of it. ERR_CONFLICT when `dir` or `branch` is there already (or,
/// taken up again, checked out elsewhere), ERR_NOT_FOUND for no repository or no such branch,
/// ERR_UNSUPPORTED for a bare one or one without commits, with the way out.
struct git_job *git_add(struct git *g, const struct git_add *a, git_add_cb *cb, void *arg);

/// A worktree that was made by git_add().
struct git_worktree {
    const char *common; // of git_added
    const char *dir;
    const char *quarantine; // of git_add
    const char *branch;
    const char *start;
    const char *head; // where the repository's branch was when the work began; NULL: `start`
    /// A second branch with work that is not on `branch`, from git_committed; NULL or "": none. Diff,
    /// apply and merge take both.
    const char *rescue;
    bool full_access; // the session had danger-full-access: no box
};

struct git_committed {
    bool committed;     // there was something
    const char *head;   // of the branch now
    const char *rescue; // a branch that holds what could not go to ours, else ""
    /// Will be lost with the directory: ignored files (copies made by git_add() among them; whole
    /// directories end with a slash), and repositories made inside it.
    struct git_names ignored, nested;
    struct git_names notes;
};

typedef void git_commit_cb(void *arg, int status, const struct err *e,
                           const struct git_committed *r);
/// Commit all that is uncommitted in a worktree with a quarantine, and bring it and all commits made
/// there into the repository, checked; `link` as it was given to git_add(): these are taken away
/// before. Wherever HEAD has gone, nothing is lost: work that does not follow on the branch goes to
/// `BRANCH-rescue-ID`, as do other branches and a stash that were made there. Nothing may run in the
/// directory any more: locks that a killed git has left are removed. ERR_NOT_FOUND when the directory
/// or its registration is gone, ERR_TOO_LARGE for more than a repository should get at once.
struct git_job *git_commit(struct git *g, const struct git_worktree *w, const char *root,
                           const char *const *link, const char *message, git_commit_cb *cb,
                           void *arg);

typedef void git_done_cb(void *arg, int status, const struct err *e);
/// Remove the directory, its quarantine and its registration, whatever is in them; the branch stays.
/// Links are not followed. Each may be gone already. Only `common`, `dir`, `quarantine` are read.
struct git_job *git_remove(struct git *g, const struct git_worktree *w, git_done_cb *cb, void *arg);

// ---- a copy elsewhere ------------------------------------------------------------------------

struct git_push {
    struct git_worktree of; // `dir` NULL: its branch; else its files as they are now
    const char *remote;     // an address, a path, or the name of a remote of the repository
    const char *last; // what we pushed before; NULL or "": the remote must not have the branch
    /// What it may have in its place, pushes that failed after they began; ends with NULL. May be NULL.
    const char *const *tried;
    bool adopt;          // or any commit that the repository has: what was pushed last is not known
    const char *message; // of the commit that holds uncommitted files
};

struct git_pushed {
    /// That the remote's branch is now. After a failure: that it may be all the same, or "".
    const char *commit;
    const char *url; // of the remote, as other machines can use it
};

typedef void git_push_cb(void *arg, int status, const struct err *e, const struct git_pushed *r);
/// Make the branch of the same name in `remote` the work as it is now. What is uncommitted goes along in a
/// commit that no branch of the repository names; the worktree may be in use and does not change.
/// ERR_CONFLICT when the remote's branch is none of these: another client works on it.
struct git_job *git_push(struct git *g, const struct git_push *p, git_push_cb *cb, void *arg);

typedef void git_url_cb(void *arg, int status, const struct err *e, const char *url);
/// The address of `remote`, as other machines can use it.
struct git_job *git_url(struct git *g, const char *common, const char *remote, git_url_cb *cb,
                        void *arg);

struct git_pull {
    const char *root;   // of the checkout
    const char *remote; // an address or a path
    const char *branch; // NULL: none
    bool own;           // the checkout is a clone of ours, made if it does not exist
};
/// Make `branch` of the repository what `remote` has, wherever it was, even while a worktree has it. In a clone
/// of ours without a branch, the checkout becomes what the remote has as its HEAD. ERR_NOT_FOUND when the remote
/// has no such branch.
struct git_job *git_pull(struct git *g, const struct git_pull *p, git_done_cb *cb, void *arg);

// ---- what came of it -------------------------------------------------------------------------

struct git_change {
    const char *path;
    char kind;               // A added, D deleted, M changed, T other type (link, file)
    uint64_t added, removed; // lines
    bool binary;
};

struct git_diff {
    const char *from, *to; // commits; of a live worktree `to` is a tree
    const struct git_change *changes;
    size_t n_changes;
    bool changes_cut;
    uint64_t added, removed; // lines of all
    uint64_t commits;        // after `from`
    struct str patch;        // binary parts included, with renames; "" unless asked for
    bool patch_cut;          // at the end of a line
    const char *touches;     // the first path that only a person may take over, else ""
};

struct git_diff_opts {
    struct git_worktree of; // `dir` NULL: of the branch; else also of the files there now
    size_t max_changes;     // 0: 10,000
    size_t max_patch;       // bytes; 0: no patch
};

typedef void git_diff_cb(void *arg, int status, const struct err *e, const struct git_diff *r);
/// The work after `start`. ERR_NOT_FOUND when the branch or `start` is gone.
struct git_job *git_diff(struct git *g, const struct git_diff_opts *o, git_diff_cb *cb, void *arg);

/// True for a path that is never taken over without a person: `.afloat/`, `.github/` at the root,
/// `.gitmodules`, `.gitattributes`, `AGENTS.md` and `CLAUDE.md` anywhere, in any case of letters.
bool git_is_protected(struct str path);

// ---- a checkout, before and after a command ----------------------------------------------------

struct git_dirty {
    const char *path; // from the root
    bool in_head; // HEAD has it; of a path that differs between `since` and HEAD: `since` has it
    bool moved;   // it differs between the two
};

/// What is not as in `head`, each path once and in order.
struct git_status {
    const char *root; // of the checkout, real path
    const char *head; // commit; "" when unborn
    const struct git_dirty *p;
    size_t n;
    /// Directories that were not looked into: ignored ones and other repositories. They end with a slash.
    struct git_names dirs;
};

typedef void git_status_cb(void *arg, int status, const struct err *e, const struct git_status *r);
/// List what differs from HEAD in the user's checkout that `dir` is in: changed and untracked files, and
/// ignored ones that are not in an ignored directory. With `since`, a commit, also what differs
/// between it and HEAD. Nothing is written. ERR_NOT_FOUND when `dir` is in no checkout, ERR_TOO_LARGE
/// for more than 64 MiB of names.
struct git_job *git_status(struct git *g, const char *dir, const char *since, git_status_cb *cb,
                           void *arg);

/// Write the files `paths` (from the root; all of them in `commit`) beneath the directory `into` as a
/// checkout would: with filters, modes and links. The checkout at `root` and its index stay as they are.
struct git_job *git_extract(struct git *g, const char *root, const char *commit,
                            const struct git_names *paths, const char *into, git_done_cb *cb,
                            void *arg);

// ---- taking it over --------------------------------------------------------------------------

enum git_how {
    GIT_NOTHING,      // it is all there already
    GIT_APPLIED,      // uncommitted, by git_apply()
    GIT_FAST_FORWARD, // the rest by git_merge()
    GIT_MERGE_COMMIT,
    GIT_REPLAYED, // commits of the same text on top of the user's
};

struct git_taken {
    enum git_how how;
    const char *branch;     // the user's that was merged into
    const char *head;       // of it, now
    struct git_names paths; // changed; after ERR_CONFLICT those that stand against it (may be none)
    bool clash;             // ERR_CONFLICT because both sides changed these paths
};

typedef void git_take_cb(void *arg, int status, const struct err *e, const struct git_taken *r);

/// Put the work after `start` on the user's checkout `root`, uncommitted, three-way: all of it or,
/// with ERR_CONFLICT and the paths, nothing. The user's index, refs and logs stay as they are. Of `w`
/// the branches and `start` are read.
struct git_job *git_apply(struct git *g, const char *root, const struct git_worktree *w,
                          git_take_cb *cb, void *arg);

/// Merge into the branch that is checked out at `root`; `dirty` as in git_added: then only the
/// commits after `start` are replayed. ERR_CONFLICT, and nothing is changed, when there are changes
/// to tracked files, an operation is in progress, no branch is checked out, or the two do not go
/// together; or when the branch is not `into` (NULL: any will do).
struct git_job *git_merge(struct git *g, const char *root, const struct git_worktree *w, bool dirty,
                          const char *into, git_take_cb *cb, void *arg);

/// Delete a branch that is still at `commit` and checked out nowhere, else ERR_CONFLICT. One that is
/// gone is fine.
struct git_job *git_delete_branch(struct git *g, const char *common, const char *branch,
                                  const char *commit, git_done_cb *cb, void *arg);

// ---- what there is ---------------------------------------------------------------------------

struct git_entry {
    const char *path;
    const char *head;   // commit; "" when bare
    const char *branch; // "" when detached
    bool bare, locked, prunable;
};

struct git_list {
    const struct git_entry *p; // the main checkout first
    size_t n;
};

typedef void git_list_cb(void *arg, int status, const struct err *e, const struct git_list *r);
/// The worktrees of the repository that `repo` is in; ERR_NOT_FOUND when it is in none.
struct git_job *git_list(struct git *g, const char *repo, git_list_cb *cb, void *arg);

struct git_measure {
    uint64_t bytes, files; // on disk; `partial`: at least
    bool partial;
    int64_t changed_ms;   // when anything in it was last written, since 1970
    uint64_t uncommitted; // files that are not as in HEAD, untracked ones included
    uint64_t commits;     // that are on no other branch
};

typedef void git_measure_cb(void *arg, int status, const struct err *e,
                            const struct git_measure *r);
/// How large and old a worktree is, and what would be lost with it.
struct git_job *git_measure(struct git *g, const struct git_worktree *w, git_measure_cb *cb,
                            void *arg);
