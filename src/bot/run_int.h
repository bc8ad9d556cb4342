#pragma once

#include "bot/ask.h"
#include "bot/memory.h"
#include "bot/record.h"
#include "bot/skillset.h"
#include "loop/timer.h"
#include "store/store.h"

// A run that lives: made by bots_run() or, for what a killed hub left, by recovery; gone when its record says `ended`.
// Loop thread. Its steps, in the order in which a run takes them; each is a function of its own that ends by run__go()
// to another one. `iterates`: a wish to stop leads from there to KEEP.
//
//     NOTE ─> TREE ─> SHARE ─> SETUP ─> GATHER ─> RECALL ─> SESSION ─> WEIGH ─┬─> REST ─> GATHER
//                            └──> PTY (a program), CHAT (a conversation) ─────┤
//     gone <─ RECORD <─ CLOSE <─ MERGE <─ COUNT <─ REMOVE <─ PUSH <─ KEEP <───┘
#define RUN_STEPS(X)                                                                               \
    X(NOTE, note_down, false) /* the record is there before anything else is */                    \
    X(TREE, tree, false)      /* the worktree */                                                   \
    X(SHARE, share, true)     /* the remote, if there is one, gets where it begins */              \
    X(SETUP, setup, true)     /* commands of [worktree] setup, one after the other */              \
    X(GATHER, gather, true)   /* config, skills, memory are read, a number is taken */             \
    X(RECALL, recall, true)   /* the last summaries */                                             \
    X(SESSION, session, true) /* a session is made, the prompt sent, and its turn runs */          \
    X(WEIGH, weigh, false)    /* the turn is over: what now? */                                    \
    X(REST, rest, true)       /* sleep */                                                          \
    X(PTY, pty, true)         /* its program works, and has not ended */                           \
    X(CHAT, chat, true)       /* so does a person, in a conversation */                            \
    X(KEEP, keep, false)      /* what is uncommitted goes to the branch */                         \
    X(PUSH, push, false)      /* the remote gets that */                                           \
    X(REMOVE, remove, false)  /* the directory goes */                                             \
    X(COUNT, count, false)    /* what is on the branch now */                                      \
    X(MERGE, merge, false)    /* taken over, where that is allowed */                              \
    X(CLOSE, close, false)    /* the last session ends */                                          \
    X(RECORD, record, false)  /* the record says so; gone */                                       \
    X(DROP, drop, false)      /* another hub has it: the directory goes, nothing is written */     \
    X(UNDO, undo, false)      /* it never began: the directory goes, */                            \
    X(FORGET, forget, false)  /* then its branch */                                                \
    X(UNNOTE, unnote, false)  /* and the record */

enum run_step {
#define X(id, name, iterates) RUN_##id,
    RUN_STEPS(X)
#undef X
};

enum run_outcome { RUN_TURN_COMPLETED, RUN_TURN_FAILED, RUN_TURN_INTERRUPTED };

enum {
    RUN_GRACE_MS = 5000,    // for a turn that is to end, or a push after a second stop request
    RUN_HURRY_MS = 700,     // the same, and for its session, after a second stop request
    RUN_AGAIN_MS = 1000,    // until a record that could not be written is tried again
    RUN_FAILURES = 3,       // failed turns in a row that end a run
    RUN_INPUT = 1 << 20,    // bytes of what was said and not read yet
    RUN_NOTES = 100,        // lines of the record for people
    RUN_TRIED = 8,          // commits of rec.tried
    RUN_ITERATIONS = 1000,  // that the record names; all are in the history
    RUN_RENEW = 256 * 1024, // bytes of memory from which a record is made anew
    RUN_SUBJECT = 69,       // bytes of a commit's first line, and three dots
    RUN_SUMMARY = 500,      // bytes of an answer that become a summary
    RUN_COMPLETE = 4000,    // bytes of the summary that the model gives
};

/// What an iteration knows, read anew for each.
struct run_lore {
    struct catalog catalog;
    struct catalog_bot *bot; // in the catalog, with the flags of the run applied
    struct skillset skills;
    struct memory memory;
    uint64_t number; // of its session
};

struct run {
    struct bots *b;
    struct arena arena; // what lives as long as the run; the record's own is made anew now and then
    struct record rec;
    struct workspace ws;
    enum run_step step;
    struct loop_task *next;
    struct ask *starter; // waits for the first session; NULL once it is answered
    vec(struct ask *) awaiting;
    // what was asked for, texts in the arena
    struct bot_overrides asked;
    const struct json *env; // the client's; NULL: none
    mode_t umask;           // the client's, for what git makes
    // where it works
    const char *dir; // in the worktree, or the user's
    bool has_tree;   // the worktree was made
    struct git_job *job;
    git_done_cb *removed; // waits for run__remove_tree()
    struct {
        struct git_job *job; // NULL: the remote has answered
        loop_fn *done;       // NULL: nothing is pushed, and no record of that is written
        void *arg;
        bool awaited; // by the step, which follows again
        bool silent;  // the remote did not answer the last one
        bool adopt;   // the hub was killed: it may have pushed what the record does not say
    } push;
    struct tool_job *call; // of setup
    size_t n_setup;        // commands run so far
    // an iteration
    struct run_lore *lore;  // of the first only config.md, until it is gathered
    struct run_lore *fresh; // being read
    struct buf prompt;
    struct buf input; // what was said and not read yet
    size_t n_read;    // bytes of it that are in the prompt
    int64_t n_done;   // iterations of this start
    unsigned failures;
    char session[STORE_ID_MAX + 1]; // "" between iterations
    bool in_turn;                   // the message was sent, the answer is to come
    // what the turn came to
    enum run_outcome outcome;
    struct buf answer;   // its text
    bool hopeless;       // it failed in a way that the next one would, too
    bool complete;       // the model said so,
    const char *wish;    // and wants merge, review or discard; NULL: it said nothing
    const char *touches; // a path on its branch that only a person takes over; "": none
    // sleep and stop
    struct timer timer;
    bool resting, woken, stop_wanted, forced;
    vec(struct watch *) watches;
    unsigned n_away;     // callbacks of others that still come: it is not freed before
    bool over;           // and then it is
    bool unsaved;        // it has ended, and its record could not be written yet
    struct agent_no why; // it never began
    bool lost;           // another hub has it, or may have it
    bool taken;    // from the queue or from a lost hub, which left a worktree that has its branch
    int64_t heard; // what other hubs said to it, so far
    char *former;  // the record before it was resumed; NULL: it was not
    bool makes_branch; // with its worktree: it has none yet
};

// ---- for the rest of the service ----------------------------------------------------------------

/// Begin the run that `a` asks for, once it is located; answers `a` when the first session is there.
void run_start(struct ask *a);
/// Bring in what a killed hub left of a run: its work is committed, its directory goes, it ended as
/// `crashed`. `rec` is moved.
void run_recover(struct bots *b, struct record *rec);
/// End it cleanly; a second call, or `force`, waits no longer than it must.
void run_stop(struct run *r, bool force);
/// Answer `a` with the record when the run has ended.
void run_await(struct run *r, struct ask *a);
/// Say something to it: `a` is answered.
void run_say(struct run *r, struct ask *a);
/// Its model says, in `session`, that the work is done; it ends after this turn. False: that is not the
/// session whose turn the run waits for.
bool run_complete(struct run *r, struct str session, struct str summary, struct str action);
/// Where this hub clones the repository at the address `remote` to; caller frees.
char *run__clone_of(const struct bots *b, const char *remote);

// ---- for its steps ------------------------------------------------------------------------------

/// A callback is to come, and came: nothing of the run may be used after run__back().
void run__away(struct run *r);
void run__back(struct run *r);
/// Ask `path` something that may block: `ask` on the lane, then `then` on the loop, after run__away() and before
/// run__back(). `path` is freed after it.
void run__ask_path(struct run *r, char *path, bool (*ask)(const char *path),
                   void (*then)(struct run *r, const char *path, bool answer));
/// Not in the list any more; gone when the last callback came. Who waits for it was answered.
void run__leave(struct run *r);
/// The hub stops and the run continues without it: leave, and answer those that wait for its end.
void run__leave_alone(struct run *r);
/// A new one in the list, with `rec` moved into it.
struct run *run__new(struct bots *b, struct record *rec);

void run__go(struct run *r, enum run_step step);
/// End the run: the way to KEEP. The first reason counts.
void run__end(struct run *r, const char *reason);
/// It could not even begin: everything that was made goes, its starter hears why.
void run__abort(struct run *r, const struct agent_no *no);
void run__abort_err(struct run *r, const struct err *e);

/// Remove its directory, in the repository's turn; tells of that, then `done`, which may end the run.
void run__remove_tree(struct run *r, git_done_cb *done);
/// Write the record; `done` may be NULL. What fails is logged.
void run__save(struct run *r, store_done *done);
/// A line of rec.notes, once; RUN_NOTES of them at most.
void run__note(struct run *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
/// Add a line to what was said to it and not read yet.
void run__add_input(struct run *r, struct str text);
/// Its one timer, for `cb` from here on; it may run.
void run__alarm(struct run *r, uint64_t ms, timer_cb *cb);
void run__lore_free(struct run_lore *l); // NULL is allowed
struct git_worktree run__worktree(struct run *r);
/// The record of a new run, of the bot or program `a->name`.
void run__fill_record(struct ask *a, struct record *rec);
/// A new id, in the record's arena.
const char *run__make_id(struct record *rec);
/// May `a` resume the run of this record? If not, `no` says why.
bool run__may_resume(const struct ask *a, const struct record *rec, struct agent_no *no);
/// The run is resumed: clear from the record what its end said. Returns it as it was; caller frees.
char *run__reopen(struct record *rec);
/// What of the request the record shows: all but the environment, and what it has members for.
const struct json *run__options(const struct ask *a, struct record *rec);
/// What the settings `c` say for POST /session, with `dir` and `env` (NULL: none), and room for one more member.
struct json *run__session_params(struct arena *a, const struct bot_config *c, const char *dir,
                                 const struct json *env);
/// The request is about this run; `rec` is moved.
void run__hold_record(struct ask *a, struct record *rec);
bool run__has_begun(const struct record *rec); // its worktree or a session was made
/// Its work begins: tell the stream.
void run__tell_start(struct run *r);
/// NULL: it is recovered, or no bot's.
const struct bot_config *run__config(const struct run *r);
bool run__is_terminal(const struct run *r);

// the steps
#define X(id, name, iterates) void run__##name(struct run *r);
RUN_STEPS(X)
#undef X

/// The work of one that is no bot's begins in a worktree: make the workspace `name`, then `launch`. Refused where
/// there is no repository.
void run__make_space(struct ask *a, const char *name, ask_fn *launch);
/// A run with `rec`, which is moved, begins for `a`. `former` as in struct run.
struct run *run__begin(struct ask *a, struct record *rec, char *former);
/// The sandbox of a run that asked for one, or did not (NULL), under the settings and their [policy].
const char *run__sandbox(const struct bots *b, const char *asked);
/// Does a sandbox of that name, or that of the settings (NULL), let everything be written?
bool run__has_full_access(const struct bots *b, const char *sandbox);

// run_push.c
/// Do not wait for the remote any more, if it is being waited for.
void run__cancel_push(struct run *r);

// run_terminal.c
/// End its program; when the hub stops, leave that alone: it continues, and the next hub finds both.
void run__stop_terminal(struct run *r);

// run_chat.c
/// Begin the run of a conversation, for bots_chat() with `worktree`.
void run__start_chat(struct bots *b, const struct json *params, agent_session_cb *cb, void *arg);
/// End its session; when the hub stops, leave that alone.
void run__stop_chat(struct run *r);
/// A hub that stopped or was killed left it: it continues while its session can.
void run__recover_chat(struct run *r);

// run_shared.c: hubs that share a store
void run__save_shared(struct run *r, store_done *done, void *arg); // fenced; then the file here
/// Take the row of a run that never began away again.
void run__unnote_shared(struct run *r);
/// The request `a` of run_start() goes to the queue: is that where it belongs?
bool run__must_wait(struct ask *a);
void run__enqueue(struct ask *a, struct record *rec);

// run_wake.c
void run__watch(struct run *r);   // what --wake-on names
void run__unwatch(struct run *r); // NULL is allowed
void run__wake(struct run *r);    // out of its sleep
