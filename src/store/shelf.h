#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

// Small texts that bots keep: memory, skills, the last number of a session; and their sessions, to be shown. Hubs that
// share a store have them in common (documents of the database); a store in files has them as files of the home.
//
// Everything here blocks, for workers: never on the loop thread. `path` is that of the file, absolute or
// relative to the home. A shelf of NULL is the home's files, so `path` is absolute then.
//
// A text has a revision. To change it, read it, and write the new text with the revision that was read.
// After ERR_CONFLICT, which means that another hub changed it meanwhile, read it again. Files have no
// revisions (always 0): their writers hold a lock.

struct shelf;
struct store;

/// Of a shared store; NULL: of one in files. Borrowed until store_close(). On any thread.
struct shelf *store_shelf(struct store *s);

/// Read a text; appended to `out`, which bounds it (ERR_TOO_LARGE). `*rev` is its revision. -ENOENT: there is
/// none, and `*rev` is 0, with which it can be made.
int shelf_read(struct shelf *sh, const char *path, struct buf *out, int64_t *rev,
               struct err *e) MUST_CHECK;
/// Replace a text that has the revision `rev`; on failure the old one is whole. ERR_CONFLICT.
int shelf_write(struct shelf *sh, const char *path, struct str text, int64_t rev,
                struct err *e) MUST_CHECK;
/// Remove a text. ERR_CONFLICT; no error when it does not exist. A shelf of NULL is not allowed: files go to the trash.
int shelf_remove(struct shelf *sh, const char *path, int64_t rev, struct err *e) MUST_CHECK;
/// Give a text that cannot be understood another name, so that nothing writes over it: `*kept` (caller frees) is
/// `path`.corrupt-<time>.
int shelf_set_aside(struct shelf *sh, const char *path, char **kept, struct err *e) MUST_CHECK;

struct shelf_text {
    const char *name; // relative to the home
    struct str text;
    int64_t rev;
};
struct shelf_texts {
    struct shelf_text *list; // in the caller's arena
    size_t n;
};

/// All texts below the directory `dir`, by name, into `a`. None for a shelf of NULL.
int shelf_list(struct shelf *sh, const char *dir, struct arena *a, struct shelf_texts *out,
               struct err *e) MUST_CHECK;

/// How many sessions are below the directory `dir`. Not for a shelf of NULL.
int shelf_count(struct shelf *sh, const char *dir, size_t *out, struct err *e) MUST_CHECK;
/// The session whose directory is `dir`: its metadata, and the last events, one a line, about `max` bytes of them.
/// -ENOENT. Not for a shelf of NULL.
int shelf_session(struct shelf *sh, const char *dir, size_t max, struct buf *meta,
                  struct buf *lines, struct err *e) MUST_CHECK;

/// Bring in the session whose files are in `dir`; they stay. ERR_CONFLICT when another one of that id is there. Not
/// for a shelf of NULL.
int shelf_add_session(struct shelf *sh, const char *dir, struct err *e) MUST_CHECK;
/// Remove everything that hubs have in common of `bot`: texts, sessions, runs. It is in the file `to` then, which must not
/// exist (`store import` brings it back, except the runs). ERR_CONFLICT while a hub works with the bot.
int shelf_drop_bot(struct shelf *sh, const char *bot, const char *to, struct err *e) MUST_CHECK;

/// The next number of a session in the workspace `dir`, or, when that is more, `at_least`. A workspace without
/// a number gets one above those of its sessions. Not for a shelf of NULL.
int shelf_number(struct shelf *sh, const char *dir, uint64_t at_least, uint64_t *out,
                 struct err *e) MUST_CHECK;
