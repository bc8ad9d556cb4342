#pragma once

#include "git/git.h"
#include "loop/loop.h"
#include "rewind/kept.h"

// Taking back what the tools of a session did to files.
//
//     turn begins ──> rewind_turn
//     a tool is about to change files ──> rewind_before ──> it runs ──> rewind_after
//     the user wants it back ──> rewind_list, rewind_restore
//
// Of a file tool the files that it is about to write are kept; of a command in a git checkout a snapshot
// is taken before it and compared with what is there afterwards. What a command changes outside of a
// checkout is not kept, and the record says so. docs/internals/rewind.md says how and why.
//
// Everything belongs to the loop thread. A call begins a job and returns at once; jobs of one session run
// one after the other. A callback comes exactly once, on the loop thread, never from inside the call, and
// what it gets is borrowed for the call.

struct rewind;         // of one hub
struct rewind_session; // of one session

/// Begin without git. Never NULL.
struct rewind *rewind_open(struct loop *l);
/// What asks git for the state of checkouts; borrowed. NULL, or never called: nothing that commands do is
/// kept.
void rewind_set_git(struct rewind *r, struct git *git);
/// Sessions must be closed, their jobs may still run.
void rewind_close(struct rewind *r); // NULL is allowed

/// `dir` is the session's own directory, where `rewind.jsonl` and `kept/` lie; `working_dir` may be NULL.
/// `max_bytes` bounds what is kept.
struct rewind_session *rewind_session_open(struct rewind *r, const char *dir,
                                           const char *working_dir, uint64_t max_bytes);
/// Jobs under way still end and tell.
void rewind_session_close(struct rewind_session *s); // NULL is allowed
/// Give back what only speeds up the next command.
void rewind_session_rest(struct rewind_session *s);

/// A turn begins: the state until its first change is "before" it.
void rewind_turn(struct rewind_session *s, const char *turn, int64_t at, struct str text);

struct rewind_call;
/// `note`: why changes of this call cannot be taken back, for people; NULL when they can.
typedef void rewind_ready_cb(void *arg, const char *note);
/// A call of `turn` is about to change files: `paths` (absolute, NULL at the end), or with NULL it is a
/// command that may change any. The caller ends it with rewind_after(), however the call ended.
struct rewind_call *rewind_before(struct rewind_session *s, const char *turn,
                                  const char *const *paths, rewind_ready_cb *cb, void *arg);
void rewind_after(struct rewind_call *c, rewind_ready_cb *cb, void *arg);

// ---- going back ----------------------------------------------------------------------------------

struct rewind_file {
    const char *path; // absolute
    bool deletes;     // it was not there before
    bool conflict;    // somebody else changed it since
};

struct rewind_result {
    const char *to;            // the point
    struct rewind_file *files; // what is other than it was before the turn
    size_t n_files;
    struct git_names not_kept; // lines for people
    size_t conflicts;
};

struct rewind_wish {
    const char *to; // a turn or an earlier rewind; NULL: the last turn
    const char *id; // of this rewind, a point by itself from now on
    int64_t at;
    bool dry_run;
    bool no_files; // only make it a point
    bool force;    // conflicts are overwritten, kept like everything else
};

typedef void rewind_restore_cb(void *arg, int status, const struct err *e,
                               const struct rewind_result *r);
/// Bring back the files as they were before `to`. ERR_NOT_FOUND for a point that is not there or not
/// kept any more; ERR_CONFLICT, and nothing is changed, when files were changed by others since and
/// `force` is not set: the result has them. After another failure some files may be back; the rewind is
/// a point all the same, so they can be brought forth again.
void rewind_restore(struct rewind_session *s, const struct rewind_wish *wish, rewind_restore_cb *cb,
                    void *arg);

/// A point to go back to.
struct rewind_listed {
    const char *turn;
    int64_t at;
    struct str text;
    bool dropped; // its changes are not kept any more
    struct git_names files, not_kept;
};
typedef void rewind_list_cb(void *arg, int status, const struct err *e,
                            const struct rewind_listed *list, size_t n);
/// All points, oldest first.
void rewind_list(struct rewind_session *s, rewind_list_cb *cb, void *arg);
