#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "bot/bots.h"
#include "bot/turnstile.h"
#include "git/git.h"
#include "loop/work.h"
#include "proto/events.h"

// What the files of the service share.
//
//     bots.c           its life; who waits for its end        ask.c         one operation under way
//     bots_files.c     bots                                   bots_memory.c, bots_skills.c, bots_history.c
//     run.c            a run, from step to step               run_start.c   from the request to its worktree
//     run_shared.c     hubs that share a store                runs_shared.c their runs, found and listed
//     run_push.c       its work goes to a remote              run_setup.c   commands before the first session
//     run_iterate.c    one session after the other            run_end.c     the work is kept, the record written
//     record.c         what a run leaves on disk              runs*.c       runs found, listed, shown
//     run_terminal.c   a program of the user's                run_chat.c    a conversation in a worktree
//     runs_take.c      diff, apply, merge, discard            recover.c     runs that a killed hub left
//     tools.c          what models of bots can call           chat.c        conversations
//     worktrees.c      worktrees listed and cleaned           worktrees_user.c  those that no run made
//     turnstile.c      one at a time for each repository

struct record;
struct run;

struct bots {
    struct bots_opts o;
    const char *home; // of o.hub, like the next three
    struct loop *loop;
    struct store *store;
    struct shelf *shelf; // NULL: hubs share nothing
    struct lane *lane;   // for files
    struct runs_index *index;
    struct git *git; // NULL: `git_fault` says why
    struct err git_fault;
    vec(struct run *) runs;  // live; each has a lease on its worktree
    struct map busy;         // ids of runs that an operation works on
    bool recovering;         // which runs of an earlier hub live is not known yet
    vec(struct ask *) early; // that came meanwhile and want a run
    struct turnstile trees;  // worktrees being made and removed
    size_t n_held;           // whatever of ours will call back
    bool stopping, closing;
    loop_fn *done; // of bots_stop() or bots_close(), while it waits
    void *done_arg;
    struct loop_task *idle_task;
};

/// Something of ours is under way, and over: bots_close() waits for the last one.
void bots__hold(struct bots *b);
void bots__release(struct bots *b);

/// The problem that fits the code of `e`.
void bots__no_err(struct agent_no *no, const struct err *e);

/// Something that bots_stop() or bots_close() waits for is over: perhaps it was the last.
void bots__check_idle(struct bots *b);
/// The live run of that id; NULL when there is none.
struct run *bots__run_of(struct bots *b, struct str run_id);
/// Is it live, and not only about to be told that its record is written?
bool bots__is_running(struct bots *b, struct str run_id);

/// An operation has the run to itself between the two; false: another operation has.
bool bots__take_run(struct bots *b, struct str run_id);
void bots__leave_run(struct bots *b, struct str run_id);

/// Begin an event of the run of `rec`: the caller adds members to it, then bots__emit() puts it on the stream.
struct jw bots__begin_event(const struct record *rec, struct buf *fields);
void bots__emit(struct bots *b, enum event_id event, struct jw *w);

/// bots_worktree_list() with `repo`.
bots_fn bots__list_repository;
/// Tell bots_opts.worktree of one, and of those that are there.
void bots__tell_worktree(struct bots *b, enum bots_tree what, const char *path, const char *branch,
                         const char *repository);
void bots__find_worktrees(struct bots *b);

/// agent_kit.stepped: the work of the run goes to its remote.
void bots__stepped(void *arg, struct session *s, loop_fn *done, void *done_arg);
/// agent_kit.ended: the run of a conversation ends with it.
void bots__ended(void *arg, const struct session *s);
/// bots_chat(), with `worktree` taken care of: `place` (may be NULL) says in which run, on which branch.
void bots__open_chat(struct bots *b, const struct json *params, const struct agent_role *place,
                     agent_session_cb *cb, void *arg);
/// Tell the fleet who runs bots here.
void bots__join_fleet(struct bots *b);
/// Another hub has the run of that id: end all that it does here, and write nothing.
void bots__lost(struct bots *b, struct str id);
void bots__learn(void *arg, struct session *s, struct agent_lore *out, loop_fn *done,
                 void *done_arg);
