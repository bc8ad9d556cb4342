#pragma once

#include "git/git.h"
#include "loop/loop.h"
#include "rewind/kept.h"

// Undo what the tools of a session did to files.
//
//     turn begins ──> rewind_turn
//     a tool is about to change files ──> rewind_before ──> it runs ──> rewind_after
//     the user goes back ──> rewind_list, rewind_restore
//
// Before a file tool writes, the files that it is about to change are stored. Before a command runs in a git checkout, a
// snapshot is taken, and compared with the checkout afterwards. What a command changes outside of a checkout cannot be
// undone, and the record says so. docs/internals/rewind.md describes how and why.
//
// Call all functions on the loop thread. Each starts a job and returns at once; the jobs of a session run one after the
// other. A callback is called once, on the loop thread, never from inside the function; its arguments are borrowed for
// the call.

struct rewind;         // of one hub
struct rewind_session; // of one session

/// Open, without git. Never NULL.
struct rewind *rewind_open(struct loop *l);
/// Set the git that reports the state of checkouts; borrowed. Without one, nothing that commands change can be undone.
void rewind_set_git(struct rewind *r, struct git *git);
/// Close. All sessions are closed; their jobs may still run.
void rewind_close(struct rewind *r); // NULL is allowed

/// Open the record of a session. `dir` is the session's own directory, with `rewind.jsonl` and `kept/`; `working_dir` may
/// be NULL. At most `max_bytes` of contents are stored.
struct rewind_session *rewind_session_open(struct rewind *r, const char *dir,
                                           const char *working_dir, uint64_t max_bytes);
/// Close it. Jobs under way still finish and call back.
void rewind_session_close(struct rewind_session *s); // NULL is allowed
/// The session works in `working_dir` from now on (may be NULL). What changed in the former one can still be undone.
void rewind_session_move(struct rewind_session *s, const char *working_dir);
/// Free what only makes the next command faster.
void rewind_session_rest(struct rewind_session *s);

/// A turn begins: the files as they are now are the state before it.
void rewind_turn(struct rewind_session *s, const char *turn, int64_t at, struct str text);

struct rewind_call;
/// `note`: why the changes of this call cannot be undone, for the user; NULL: they can.
typedef void rewind_ready_cb(void *arg, const char *note);
/// A call of `turn` is about to change the files `paths` (absolute, NULL at the end); `paths` NULL: it is a command, which
/// may change any file. The caller calls rewind_after() when the call is over, however it ended.
struct rewind_call *rewind_before(struct rewind_session *s, const char *turn,
                                  const char *const *paths, rewind_ready_cb *cb, void *arg);
void rewind_after(struct rewind_call *c, rewind_ready_cb *cb, void *arg);

// ---- going back ----------------------------------------------------------------------------------

struct rewind_file {
    const char *path; // absolute
    bool deletes;     // it was not there before
    bool conflict;    // it was changed by someone else since
};

struct rewind_result {
    const char *to;            // the point
    struct rewind_file *files; // those that differ from the state before the turn
    size_t n_files;
    struct git_names not_kept; // lines for the user: what cannot be undone
    size_t conflicts;
};

struct rewind_wish {
    const char *to; // a turn or an earlier rewind; NULL: the last turn
    const char *id; // of this rewind, which becomes a point too
    int64_t at;
    bool dry_run;
    bool no_files; // change no file, only add the point
    bool force;    // overwrite files in conflict; they are stored like all others
};

typedef void rewind_restore_cb(void *arg, int status, const struct err *e,
                               const struct rewind_result *r);
/// Restore the files as they were before `to`. ERR_NOT_FOUND: there is no such point, or it is no longer kept.
/// ERR_CONFLICT: others changed files since and `force` is not set; the result names them, and nothing was changed. After
/// any other failure some files may be restored already; the rewind is a point all the same, so it can be undone.
void rewind_restore(struct rewind_session *s, const struct rewind_wish *wish, rewind_restore_cb *cb,
                    void *arg);

/// A point to go back to.
struct rewind_listed {
    const char *turn;
    int64_t at;
    struct str text;
    bool dropped; // its changes are no longer kept
    struct git_names files, not_kept;
};
typedef void rewind_list_cb(void *arg, int status, const struct err *e,
                            const struct rewind_listed *list, size_t n);
/// List all points, the oldest first.
void rewind_list(struct rewind_session *s, rewind_list_cb *cb, void *arg);
