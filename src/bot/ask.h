#pragma once

#include "bot/bots_int.h"
#include "bot/catalog.h"
#include "bot/workspace.h"

// One operation under way: its parameters, where it takes place, its answer. It goes from the loop to the
// lane and back as often as it needs, and ends with exactly one of ask__answer(), ask__fail(), ask__no().
//
//     ask__locate(a, WHERE_SPACE, then);      then(a): a->bot, a->ws
//     ask__work(a, work, then);               work(a) on the lane sets a->rc and a->e, or writes to a->w
//     ask__answer(a);                         with what was written to a->w

enum where_flag {
    WHERE_SPACE = 1, // a workspace is needed: `working_dir` or `project` must name one
    WHERE_MAKE = 2,  // and is made when it is not there
    WHERE_LEFT = 4,  // a bot that was deleted counts while its workspace is there
    WHERE_GIT = 8,   // look for the repository in any case
};

/// What git says of `working_dir`; texts in the arena of the ask.
struct where_git {
    int status; // 0, or why there is no repository: `e`
    struct err e;
    const char *root, *main_root, *common, *branch, *head;
    bool bare;
};

typedef void ask_fn(struct ask *a);

struct ask {
    struct bots *b;
    struct arena arena;
    struct json *params; // a copy in the arena
    bots_text_cb *cb;
    void *arg;
    ask_fn *work, *then, *located;
    ask_fn *located_work, *located_then; // of ask__locate_work()
    struct str sought; // the id of a run that is looked for; borrowed from the parameters
    int rc;            // of the last work
    bool named;        // ERR_CONFLICT means NAME_TAKEN
    struct err e;
    const char *hint; // that goes with `e`; NULL: none
    struct buf out;
    struct jw w; // onto `out`
    // where, see ask__locate()
    unsigned flags;
    const char *name; // of the bot; NULL: none was named
    const char *run;  // the id of the run that it started; NULL: none
    bool writes;      // it takes a run over, and `written` files of the user's tree were changed
    int64_t written;
    bool taken;           // its run comes from the queue, or from a hub that was lost
    const char *dir;      // `working_dir`, absolute and clean; NULL: not given
    const char *real;     // its real path
    struct where_git git; // once it was looked at
    bool far;             // the run worked on another hub, and its branch is not on this one
    bool same;            // `git` is a checkout of that run's project
    const char *common;   // where that was fetched to; NULL: the record says where it is
    bool has_catalog;     // `catalog` was read
    struct catalog catalog;
    struct catalog_bot *bot; // in the catalog; NULL: none was named, or only its workspace is left
    struct workspace ws;     // `dir` NULL: none
    void *data;              // of the operation; `free_data` (may be NULL) ends it
    void (*free_data)(void *data);
};

/// Begin an operation. `params` is borrowed until its answer; `cb` gets that, once.
struct ask *ask__new(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg);

/// The text of a parameter; STR_NULL when it is not there. ask__z() gives a C string, or NULL.
struct str ask__str(const struct ask *a, const char *key);
const char *ask__z(struct ask *a, const char *key);

/// Keep in a->git what git says of a directory.
void ask__keep_look(struct ask *a, const struct git_look *r);
/// Let a parameter be another text; copied. `key` is a constant.
void ask__set(struct ask *a, const char *key, struct str value);

/// A copy of the parameters without those that `keys` name, in `in`.
struct json *ask__without(const struct ask *a, struct arena *in, const char *const *keys, size_t n);

/// Find the bot of the parameter `bot`, if one is named, and the workspace of `project` or `working_dir`; then call
/// `then`, on the loop. If one of them is not found, this answers.
void ask__locate(struct ask *a, unsigned flags, ask_fn *then);
/// ask__locate(), then ask__work().
void ask__locate_work(struct ask *a, unsigned flags, ask_fn *work, ask_fn *then);
/// Run `work` on the lane, then `then` on the loop; when `work` has set a->rc, that is answered instead.
void ask__work(struct ask *a, ask_fn *work, ask_fn *then);

/// Begin the object of an answer on `a->w`. When `status` is negative, fail with `e` instead and return NULL.
struct jw *ask__begin_answer(struct ask *a, int status, const struct err *e);
/// Answer with what was written to `a->w`; frees it.
void ask__answer(struct ask *a);
/// The same for a list that is whole: close its array and object, with `next` null.
void ask__answer_list(struct ask *a);
/// Answer with the problem that fits the code of `e`; frees it.
void ask__fail(struct ask *a, const struct err *e);
/// Answer with this problem; `hint` may be NULL. Frees it.
void ask__no(struct ask *a, enum problem p, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/// Answer with a refusal of the agent; frees it.
void ask__refuse(struct ask *a, const struct agent_no *no);
/// Free it without an answer: its caller answers.
void ask__drop(struct ask *a);
