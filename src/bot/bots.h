#pragma once

#include "agent/agent.h"

// Bots: named agents with instructions, skills, memory, history, and runs that work on branches of
// their own.
//
//     bots_run ──> run: worktree ──> iterations (a session of agent/ each) ──> work on its branch
//                                                                                │
//     the user: bots_run_diff, bots_run_apply, bots_run_merge, bots_run_discard <┘
//
// One service, on the loop thread. bots_ask() begins one of the operations below; docs/internals/bots.md
// tells how a run goes.

struct ask;
struct bots;
struct watcher;

enum bots_tree { BOTS_TREE_FOUND, BOTS_TREE_MADE, BOTS_TREE_GONE };

/// Everything is borrowed until bots_free().
struct bots_opts {
    const struct hub_parts *hub;
    struct agent *agent;
    struct watcher *watcher; // for --wake-on
    struct fleet *fleet;     // may a run begin here?
    /// A worktree was found by bots_open(), made, or removed; may be NULL. The strings are good for the call.
    void (*worktree)(void *arg, enum bots_tree what, const char *path, const char *branch,
                     const char *repository);
    /// Does the program in the terminal `id` run? If not, `*status` is what it ended with, -1 if that is unknown.
    bool (*terminal_runs)(void *arg, const char *id, int *status);
    /// End it; false when there is none. Both may be NULL.
    bool (*terminal_end)(void *arg, const char *id);
    void *arg;
};

/// The tools that sessions of bots have besides those of every session; the last one has no name.
const struct tool *bots_tools(void);

/// Open, and give `agent` its kit.
struct bots *bots_open(const struct bots_opts *o);
/// End the runs that a killed hub left, in the background. Once, when the hub is ready.
void bots_recover(struct bots *b);
/// End every run as interrupted, its work kept, and let none begin; `done` when the last record is
/// written. Before agent_stop(): turns and operations still find us.
void bots_stop(struct bots *b, loop_fn *done, void *arg);
/// No operation begins any more: close threads and git; `done` when every operation under way is answered.
void bots_close(struct bots *b, loop_fn *done, void *arg);
void bots_free(struct bots *b); // after agent_free(); NULL is allowed

/// A JSON text, or `no`. `name` is that of the bot, or of the run that was started; NULL: of neither.
typedef void bots_text_cb(void *arg, struct str json, const char *name, const struct agent_no *no);
/// An operation, for bots_ask() alone.
typedef void bots_fn(struct ask *a);
/// Begin an operation with the parameters of its row in proto/ops.def, checked for names and types and borrowed for the
/// call. `cb` gets the answer, once; it may come from inside the call where something is refused.
void bots_ask(struct bots *b, bots_fn *op, const struct json *params, bots_text_cb *cb, void *arg);

// ---- bots ---------------------------------------------------------------------------------------

/// `{bots: [{name, description, source: user|project, path, error?}], next: null}`, by name. With
/// `working_dir` those of its trusted project too; the user's win.
bots_fn bots_list;
/// The row of `bots_show`; NAME_TAKEN when there is one.
bots_fn bots_create;
/// The row with `settings` (effective: defaults < file), `instructions`, `skills`, `memory_count`,
/// `session_count`, `diagnostics`. The two counts are those of the workspace of
/// `working_dir` or `project`, absent without either.
bots_fn bots_show;
bots_fn bots_patch;  // the row
bots_fn bots_delete; // `{deleted, history: kept|trash}`
bots_fn bots_import; // the report of bot/import.h

// ---- memory, of one bot in one workspace --------------------------------------------------------

bots_fn bots_memory_list;   // `{project, entries: {key: value}, diagnostics}`
bots_fn bots_memory_get;    // `{project, key, value}`
bots_fn bots_memory_set;    // `{project, key, value}`
bots_fn bots_memory_remove; // `{project, key, removed: true}`
bots_fn bots_memory_clear;  // `{project, removed: N}`

// ---- skills -------------------------------------------------------------------------------------

/// `{skills: [{name, description, source: bot|user|project, path}], diagnostics, next: null}`
bots_fn bots_skill_list;
bots_fn bots_skill_show;   // one, with `body`
bots_fn bots_skill_save;   // the same
bots_fn bots_skill_remove; // `{removed: NAME}`

// ---- history ------------------------------------------------------------------------------------

bots_fn bots_history_list; // `{project, sessions: [metadata], next}`, newest first
/// `id` is a session's, or its number: its metadata with `view`, the text of `section`.
bots_fn bots_history_show;

// ---- runs ---------------------------------------------------------------------------------------

/// Begin: `{run_id, session_id, branch, worktree, ...}` as bots_run_show gives it, when its first
/// iteration has begun (`session_id` is that one's). Where hubs share a store it may wait in their queue:
/// `state: queued`, `hub: null`, and no session yet.
bots_fn bots_run;
/// `{runs: [the record without `iterations`], next}`, newest first; of all bots and workspaces unless
/// `bot`, `working_dir` or `project` say which.
bots_fn bots_run_list;
/// The record, all members of record.h among it: `{run_id, bot, project, state: queued|running|ended, end_reason,
/// action: review|discard|merged, wants_merge, branch, worktree, repository, working_dir, base_branch,
/// base, start, head, prompt, options, session_id: the last one's, iterations: [{number, session_id,
/// end_reason, summary}], started_at, ended_at, summary, error, not_kept, notes, commits, files, in_place,
/// applied_at, merged_at, merged_into, discarded_at, branch_deleted, undone, resume: the command}`. `id` may
/// be a beginning that no other run has.
bots_fn bots_run_show;
/// `{run_id, branch, from, to, files: [{path, kind, added, removed, binary}], added, removed, commits,
/// protected: a path that only a person takes over, or null, cut, patch}`; of a live run with what is not
/// committed yet.
bots_fn bots_run_diff;
bots_fn bots_run_apply;   // the record
bots_fn bots_run_merge;   // the record
bots_fn bots_run_discard; // the record
/// `{deleted: id, branch, rescue?}`: the branches that stay.
bots_fn bots_run_delete;
/// End it: once as Ctrl-C does, a second time (or with `force`) at once. The record when it has
/// ended; also when it had. One that had not begun is `undone`: nothing of it is left.
bots_fn bots_run_stop;
/// Say something to it: `{taken: steered|queued}`.
bots_fn bots_run_input;

/// A program in a terminal gets a run, with a worktree of its own: `working_dir`, `cmd`, `args`, `name`, `type` of
/// `params`; with `resume`, the id of such a run, that one continues in its worktree and on its branch. Answers with
/// the record when the worktree is there: `dir` beside it is where to start, `terminal` the id that the
/// terminal has to get. Then one of the next two has to follow.
bots_fn bots_terminal;
/// The record of the run that `resume` names, if it can be resumed: what it was started with is in `options`.
bots_fn bots_terminal_past;
/// Its terminal runs.
void bots_terminal_runs(struct bots *b, struct str terminal);
/// It could not be started: nothing is left of the run, or it is as it was before it was resumed.
void bots_terminal_failed(struct bots *b, struct str terminal);
/// Its program has ended, with `status`; negative: unknown. `action` is what becomes of its work:
/// review, merge or discard. Nothing happens when no run has that terminal.
void bots_terminal_ended(struct bots *b, struct str terminal, int status, const char *action);

/// `{worktrees: [{path, branch, run_id, bot, project, repository, state: live|left, bytes, age_s, uncommitted,
/// unmerged}], next: null}`; with `repo` `{worktrees: [{path, branch, head}], next: null}`, as git lists them.
bots_fn bots_worktree_list;
bots_fn bots_worktree_create; // `{path, branch, base, repository}`
bots_fn bots_worktree_remove; // `{removed: PATH}`
/// `{removed: [paths], rescued: [branches with work of these that stay], kept: [{path, why}], dry_run}`
bots_fn bots_worktree_clean;

// ---- conversations ------------------------------------------------------------------------------

/// POST /session with `bot`: a session with its instructions, skills and memory, in its history. With `worktree` it
/// works in a worktree of its own, and is a run that ends with it.
void bots_chat(struct bots *b, const struct json *params, agent_session_cb *cb, void *arg);
