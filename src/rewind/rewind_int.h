#pragma once

#include "base/fifo.h"
#include "loop/work.h"
#include "rewind/rewind.h"
#include "rewind/snapshot.h"
#include "rewind/tripwire.h"

// Shared by session.c (the queue of jobs, file tools), command.c (commands) and restore.c (going back).

struct rewind {
    struct loop *loop;
    struct git *git;
    struct lane *lane;
    size_t n_jobs;
    bool closed; // the last job frees it
};

struct rewind_session {
    struct rewind *rewind;
    char *working_dir, *record, *snapshot_file, *tmp;
    struct kept_store store;
    uint64_t max_bytes;
    fifo(struct rewind_job) jobs; // the first one runs
    bool closed;
    // the checkout as it was after the last command, or before the one that runs
    struct snapshot now;
    struct tripwire *wire; // NULL: none; it does not see what happened before it was armed
    bool sure;    // the wire was armed before `now` was taken, so it sees every change since
    bool settled; // a command that a crash interrupted was looked for
    uint64_t next_call;
};

/// A job of a session. While it works on the lane, the loop thread does not touch the session.
struct rewind_job {
    struct rewind_session *s;
    struct rewind_job *next;
    void (*start)(struct rewind_job *j);
    bool settles; // a command that a crash interrupted must be settled first
    struct arena arena;
    struct rewind_call *call;
    const char *note; // NULL: all went well so far
    rewind_ready_cb *ready;
    void *arg;
    // around a command
    struct git_status status;
    struct snapshot fresh;
    rewind_changes changes;
    // going back
    struct rewind_wish wish;
    struct rewind_record past;
    struct rewind_result result;
    int status_code;
    struct err err;
    rewind_restore_cb *restored;
    rewind_list_cb *listed;
};

/// Add a job. `start` is called when the jobs before it are over and, with `settles`, a command that a crash interrupted
/// is settled; it ends the job with rewind__job_end().
struct rewind_job *rewind__job_new(struct rewind_session *s, void (*start)(struct rewind_job *j),
                                   bool settles);
void rewind__job_end(struct rewind_job *j);
/// Run `work` on the lane, then `done` on the loop thread.
void rewind__lane(struct rewind_job *j, work_fn *work, work_done *done);
/// Forget the snapshot and the wire: the next command may run in another checkout.
void rewind__forget(struct rewind_session *s);
/// Settle the command that a crash interrupted, if there is one, then start `j`.
void rewind__settle(struct rewind_job *j);

struct rewind_call {
    struct rewind_session *s;
    struct arena arena;
    const char *turn;
    uint64_t number; // of a command that began; 0: none
    bool command;
    struct git_names paths;
    rewind_changes changes; // of a file tool
};

/// Note why something cannot be undone, for the user. Only the first note counts.
void rewind__note(struct rewind_job *j, const char *msg);
/// Write a line of the job's call: `{"turn", MEMBER: N?, changes..., "not_kept"?}`. On the lane.
void rewind__append(struct rewind_job *j, const char *member, const char *base,
                    const rewind_changes *changes);
/// The call may begin: call back and end the job. A work_done.
void rewind__ready(void *arg);
/// The call is settled: call back, end the job and free the call. A work_done.
void rewind__over(void *arg);
void rewind__call_free(struct rewind_call *c);

// command.c
void rewind__begin_command(struct rewind_job *j);
/// Compare with the snapshot before the command; the job's call is that command.
void rewind__end_command(struct rewind_job *j);
