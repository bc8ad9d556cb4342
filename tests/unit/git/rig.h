#pragma once

// A repository of its own for a test, a hub's home beside it, and every operation as a call that
// waits: `rig.status` and `rig.err` tell how it ended, the results stay until rig_end().

#include "base/arena.h"
#include "git/git.h"
#include "unit/loop.h"

struct rig {
    struct loop loop;
    struct git *git;
    struct arena arena;
    const char *base;       // the test's directory, real path
    const char *repo;       // base/repo: the user's checkout, on branch main with one commit
    const char *home;       // base/home: AFLOAT_HOME
    const char *dir;        // home/worktrees/repo/bot-1: where rig_add() puts the worktree
    const char *quarantine; // home/quarantine/repo/bot-1: its own repository
    const char *program;
    uint64_t timeout_ms; // for the next rig_use()
    const char *into;    // for rig_merge()

    struct git_job *job;
    int calls; // of callbacks
    int status;
    struct err err;
    struct git_look look;
    struct git_added added;
    struct git_committed committed;
    struct git_diff diff;
    struct git_taken taken;
    struct git_list list;
    struct git_measure measure;
};
extern struct rig rig;

void rig_begin(void);
void rig_end(void);
/// Close and open the part anew, with another program in the place of git; NULL for git itself.
void rig_use(const char *program);

/// Run a shell script in the test's directory; it must succeed. The second returns what it printed,
/// without the last newline.
void rig_sh(const char *fmt, ...) PRINTF_LIKE(1, 2);
const char *rig_out(const char *fmt, ...) PRINTF_LIKE(1, 2);
/// All that is the user's: files with their modes and contents, index, HEAD, refs and logs but
/// those beneath afloat/.
const char *rig_state(const char *root);
bool rig_exists(const char *name); // in the test's directory

/// Wait for the callback of `rig.job`.
int rig_wait(void);
int rig_look(const char *dir);
struct git_worktree rig_worktree(void); // what rig_add() has made
int rig_add(void);                      // branch afloat/bot-1, the user's state
int rig_add_with(const struct git_add *a);
void rig_start_add(const struct git_add *a);  // without waiting
void rig_start_more(const struct git_add *a); // several at once
void rig_wait_more(int n);
int rig_commit(void);                             // message "work"
void rig_commit_of(const struct git_worktree *w); // without waiting
int rig_remove(void);
void rig_diff_of(const struct git_diff_opts *opts); // without waiting
int rig_diff(bool live, size_t max_patch);
int rig_apply(void);
int rig_merge(void);
int rig_delete(const char *branch, const char *commit);
int rig_list(const char *repo);
int rig_measure(void);

/// A box can be had here; else the test is skipped.
void rig_need_box(void);
bool rig_has(const struct git_names *names, const char *name);

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        if ((call) != 0) {                                                                         \
            test_fail(__FILE__, __LINE__, "%s: %d %s", #call, rig.status, rig.err.msg);            \
        }                                                                                          \
    } while (0)
