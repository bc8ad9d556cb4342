#pragma once

#include "loop/work.h"
#include "permit/rules.h"
#include "store/store.h"

// The rules that users made by answering questions: `$AFLOAT_HOME/permissions/<slug>.json`, one document per
// project, outside the repository. In memory while the hub runs, written through. All functions belong to
// the loop thread.

struct book;
struct book_project;

/// All three are borrowed. The lane is used until the last book_find() is answered.
struct book *book_new(struct store *store, struct lane *lane, const char *home);
/// When the store is closed: no rule may still be on its way to the disk. NULL is allowed.
void book_free(struct book *b);

/// `p` is borrowed until book_free(); NULL with `e` when its rules cannot be read.
typedef void book_ready(void *arg, struct book_project *p, const struct err *e);
/// Find the project that `dir` is in and read its rules; may answer before it returns. A rule that cannot be
/// read is an error, not a rule less: it may be the one that forbids something.
void book_find(struct book *b, const char *dir, book_ready *ready, void *arg);

/// The rules that are remembered for the project; borrowed until the loop turns.
const struct rules *book_rules(const struct book_project *p);

typedef void book_done(void *arg, const struct rule *r, const struct err *e);
/// Remember a rule; its id and time are made here. It counts at once. `done` gets it when it is on disk, or
/// NULL and `e`: then it does not count any more.
void book_add(struct book_project *p, const struct rule *r, book_done *done, void *arg);
/// Forget the rule of that id, in whatever project. `done` gets ERR_NOT_FOUND when there is none; `r` is NULL.
void book_remove(struct book *b, struct str id, book_done *done, void *arg);
/// Forget the rules of a session that has ended, in the projects that are in memory.
void book_forget_session(struct book *b, const char *session);
