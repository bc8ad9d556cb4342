#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "git/git.h"

// What is kept of a run: the document bots/<bot>/workspaces/<slug>/runs/<run_id>.json. It holds all that
// show, diff, apply, merge, discard, resume and recovery need after the hub was restarted; secrets of the
// client's environment are not in it. Plain data; every function on any thread.

enum { RECORD_BYTES = 64 << 20, RECORD_ID = 8 + 1 }; // texts of a few MB, each byte \\u00xx

// members of the document that are texts, "" when there is nothing to say
#define RECORD_TEXTS(X)                                                                            \
    X(run_id)                                                                                      \
    X(bot)                                                                                         \
    X(hub) /* that runs it, or ran it; of a store that hubs share */                               \
    X(project)                                                                                     \
    X(end_reason)                                                                                  \
    X(action) /* what became of its work: review, discard, merged */                               \
    X(summary)                                                                                     \
    X(error)                                                                                       \
    X(branch)                                                                                      \
    X(worktree)                                                                                    \
    X(repository)  /* the main checkout's root, or the directory */                                \
    X(common)      /* the repository itself */                                                     \
    X(root)        /* of the user's checkout */                                                    \
    X(working_dir) /* where the user was */                                                        \
    X(base_branch)                                                                                 \
    X(base)                                                                                        \
    X(start)                                                                                       \
    X(head)                                                                                        \
    X(remote) /* its work goes there after every step: what config.md says, then its address */    \
    X(pushed) /* the commit that the remote has */                                                 \
    X(rescue) /* a branch with work that could not go to `branch` */                               \
    X(prompt)                                                                                      \
    X(unread) /* what was said to it and is not in a prompt yet */                                 \
    X(merged_into)                                                                                 \
    X(terminal) /* the terminal whose program it is, in place of a bot */                          \
    X(chat)     /* the session that is its conversation, in place of a bot */

// milliseconds since 1970, RFC 3339 in the document; 0 and null: never
#define RECORD_TIMES(X)                                                                            \
    X(started_at)                                                                                  \
    X(lease_until) /* then another hub may take it */                                              \
    X(ended_at)                                                                                    \
    X(applied_at)                                                                                  \
    X(merged_at)                                                                                   \
    X(discarded_at)

#define RECORD_FLAGS(X)                                                                            \
    X(in_place)    /* no worktree: it worked where the user was */                                 \
    X(dirty)       /* `start` is a commit of ours */                                               \
    X(full_access) /* its sandbox was danger-full-access */                                        \
    X(wants_merge) /* it asks for a merge, and a person has to say yes */                          \
    X(branch_deleted)                                                                              \
    X(undone) /* stopped before it began: neither branch nor record is left */

#define RECORD_LISTS(X)                                                                            \
    X(notes)    /* lines for people */                                                             \
    X(not_kept) /* ignored files that went with the directory */                                   \
    X(tried)    /* commits that the remote may have: their push failed after it began */           \
    X(link)     /* of [worktree], as it was made */

struct record_list {
    const char **p;
    size_t n, cap;
};

struct record_iteration {
    int64_t number;
    const char *session_id, *end_reason, *summary;
};

/// The caller's storage; all texts are in the arena and never NULL.
struct record {
    struct arena arena;
    bool running, queued;
#define X(name) const char *name;
    RECORD_TEXTS(X)
#undef X
#define X(name) int64_t name;
    RECORD_TIMES(X)
#undef X
#define X(name) bool name;
    RECORD_FLAGS(X)
#undef X
#define X(name) struct record_list name;
    RECORD_LISTS(X)
#undef X
    int64_t commits, files;     // of the bot's own work
    int64_t epoch;              // one more with each hub that takes it; 0: hubs share nothing
    const struct json *options; // what was asked for; NULL: nothing
    vec(struct record_iteration) iterations;
};

/// An empty record. The caller ends it with record_fini().
void record_init(struct record *r);
/// Free what it holds.
void record_fini(struct record *r);

/// A copy in the arena, for a member.
const char *record_text(struct record *r, struct str s);
void record_add(struct record *r, struct record_list *l, struct str s);
/// The same for each of `n` names.
void record_add_all(struct record *r, struct record_list *l, const char *const *names, size_t n);

/// Read a document. ERR_CORRUPT when it is none; `r` is to be ended in any case.
int record_parse(struct record *r, struct str text, struct err *e) MUST_CHECK;
/// The document as the members of an object that is open; `whole` with iterations and lists.
void record_write(const struct record *r, struct jw *w, bool whole);

/// The whole document as a text; caller frees.
char *record_print(const struct record *r);
/// Make it anew from its own text, which frees what its arena no longer needs. Borrowed texts of it are gone.
void record_renew(struct record *r);

/// "bots/<bot>/workspaces/<project>/runs/<run_id>.json", for the store. Caller frees.
char *record_name(const struct record *r);

/// True for eight lower-case hex digits.
bool record_id_valid(struct str id);
/// Its worktree, for git/; `quarantine` is in `in`, all else is borrowed from `r`.
struct git_worktree record_worktree(const struct record *r, const char *home, struct arena *in);
/// The session of its last iteration; "" when there is none.
const char *record_last_session(const struct record *r);
