#pragma once

#include "base/json.h"
#include "loop/loop.h"

// The hub's terminals: each is kept by a process of its own (keeper.h), found by its socket. Belongs to the
// loop thread.

struct terms;
struct term;

enum terms_event {
    TERMS_OPENED,
    TERMS_CLOSED, // its program has ended; it is listed a while longer
    TERMS_REMOVED,
    TERMS_UPDATED,
    TERMS_BELL,
    TERMS_NOTIFIED
};

struct terms_opts {
    struct loop *loop;
    const char *dir; // of the sockets; made if it is missing. Borrowed
    /// Something happened; `t` and `text` are borrowed for the call. Called only after terms_open().
    void (*event)(void *arg, enum terms_event what, const struct term *t, struct str text);
    void *arg;
};

/// Find the keepers that an earlier hub left, and connect to them.
struct terms *terms_open(const struct terms_opts *o);
/// Call `done` when all keepers that were found have said what they keep, or proved to be gone: now, or later.
void terms_settle(struct terms *all, loop_fn *done, void *arg);
/// Leave the keepers alone and free everything. Calls under way are answered with an error. NULL is allowed.
void terms_close(struct terms *all);

/// What to run. All is borrowed for the call.
struct terms_spec {
    const char *cmd, *cwd;
    const struct json *args; // array of strings, or NULL
    const struct json *env;  // object of strings, or NULL
    const char *const *more; // NAME, value, ..., NULL: set after `env`; or NULL
    struct str about;        // a JSON object, kept with the terminal; empty: {}
    int rows, cols;
    int64_t history, abandon_s;
};

typedef void terms_started(void *arg, const struct term *t, const struct err *e);
/// A new id: 12 hexadecimal digits.
void terms_new_id(char out[13]);
/// Start a keeper for terminal `id`. `done` is called once, later, with the terminal or an error.
void terms_start(struct terms *all, const char *id, const struct terms_spec *spec,
                 terms_started *done, void *arg);

typedef void terms_text(void *arg, struct str text, const struct err *e);
/// End a terminal with all of its processes; `done` is called once they are gone. It is no longer found.
void terms_kill(struct term *t, terms_text *done, void *arg);
/// What its screen shows, a line per row.
void terms_screen(struct term *t, terms_text *done, void *arg);
/// Type `bytes` into it.
void terms_type(struct term *t, struct str bytes);

/// By id or a beginning of it that only one terminal has; NULL with `e` filled in. One that was found counts before its
/// keeper has said what it keeps; see terms_settle().
struct term *terms_find(struct terms *all, struct str id, struct err *e);
size_t terms_count(const struct terms *all);
struct term *terms_at(const struct terms *all, size_t i); // in order of their start, newest first

/// Its id, and the path of its keeper's socket; they live as long as it does.
const char *term_id(const struct term *t);
/// See term_id().
const char *term_socket(const struct term *t);
/// Has its program ended? The keeper may still be there.
bool term_is_ended(const struct term *t);
/// What it ended with, 128 + N for the signal N; -1: it runs, or the status is unknown.
int term_status(const struct term *t);
/// A text of what it was started with as `about`; borrowed. STR_NULL: there is none.
struct str term_about(const struct term *t, const char *key);
/// The row that lists show: {id, name, pid, cmd, args, cwd, ...}
void term_write(const struct term *t, struct jw *w);

/// Without a hub: end every keeper whose socket is in `dir`, and wait for it. Blocks, at most `ms`. Returns how
/// many there were.
unsigned terms_kill_all(const char *dir, uint64_t ms);
