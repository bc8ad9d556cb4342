#pragma once

#include "base/arena.h"
#include "base/sha256.h"
#include "base/vec.h"
#include "loop/timer.h"
#include "plugin/improvements.h"

// What improvements.c (files and the source) and improvement_run.c (their processes) share.

enum { IMPROVEMENT__NAME = 64 }; // bytes of a name

enum version_state { LOADING, READY, FAILED };

/// One content of one file, in a process.
struct version {
    struct file *file;
    enum version_state state;
    struct host *host;
    struct host_unit *offers;
    struct gen_unit *unit; // NULL before it is staged
    char hash[SHA256_HEX];
    char id[SHA256_HEX]; // under which it is kept
    struct str bytes;    // its own; NULL once it serves
    bool spare;          // the last good one, in the place of bytes that failed
    uint64_t began;      // ms of the loop's clock
    struct host_shutdown shutdown;
};

/// What a file holds.
struct holding {
    bool exists;
    bool too_large;   // to be an improvement
    struct str bytes; // its own
    char hash[SHA256_HEX];
};

struct file {
    struct improvements *owner;
    char *name, *unit, *path;
    bool invalid;         // its name is none
    struct holding now;   // what is to serve: what is there, or what an undo holds
    struct holding under; // while it is held: what is there
    bool held;
    bool judged;
    struct gen_diag verdict; // a copy; `message` is NULL when the bytes serve
    struct version *trial, *serving;
    unsigned n_versions;                                             // that have a process
    enum { SAID, SAY_GONE, SAY_VERDICT, SAY_STOPPED, SAY_HELD } say; // what the next stage tells
    bool staged;
};

struct improvements {
    struct loop *loop;
    struct gen_engine *engine;
    struct gen_source *source;
    struct improvements_opts opts; // with strings in `strings`
    struct arena strings;
    struct lane *lane;
    struct scopes scopes;
    struct watch *watch;
    vec(struct file *) files; // sorted by name
    bool listed;              // the directory was read
    bool ready;               // and what was kept is known
    bool preparing;           // a gen_prepared() is owed
    bool catching_up;         // and what was saved before it is still being reported
    bool stopped;
    char *note;            // see improvement_past.c
    struct timer patience; // fires when what loads is waited for no longer
    struct {
        bool force, wait;
        vec(char *) names;
    } asked; // of the request that is being prepared
};

// ---- improvements.c ------------------------------------------------------------------------

/// What is held against the file's bytes; NULL: nothing.
void improvements__verdict(struct file *f, const struct gen_diag *d);
/// A version has gone: forget its file if that is gone too and nothing is left to report.
void improvements__sweep(struct file *f);
/// Something loaded or failed: say that we are ready as soon as nothing is waited for any more. Outside
/// of a run: ask for one that takes it.
void improvements__prepare_on(struct improvements *imp);
void improvements__request(struct improvements *imp, const char *trigger);

// ---- improvement_past.c --------------------------------------------------------------------

void improvements__join_past(struct improvements *imp);
/// The directory was read: take what an undo holds in the place of what is there.
void improvements__take_holds(struct improvements *imp);
/// What is there changed to `h`: a hold of the former content ends. False: it stands, nothing changed.
bool improvements__end_hold(struct file *f, const struct holding *h);
/// A reload was forced: the file on disk counts again.
void improvements__force(struct file *f);
void improvements__say_held(struct file *f, struct gen_stage *s);
/// The trial was committed: keep it.
void improvements__serves(struct file *f);
struct file *improvements__file(struct improvements *imp, struct str name, const char *path);
struct file *improvements__find(struct improvements *imp, struct str name); // NULL: not known

// ---- improvement_run.c ---------------------------------------------------------------------

/// May agent-written code call this operation? The table says it (OP_AGENT); of events only their own names.
bool improvement__may_call(struct str op, const struct json *params);
/// Start a process for `bytes`; it becomes `trial`, or the verdict says why not. `spare`: they are the last good ones,
/// in the place of bytes that failed.
void improvement__try(struct file *f, struct str bytes, bool spare);
void improvement__bytes_free(struct str *bytes);
/// Discard what is being tried. What was staged belongs to its unit and stays. A file that is gone,
/// and of which nothing is left to say, goes with its last version.
void improvement__drop_trial(struct file *f);
/// End a version and its process.
void improvement__free(struct version *v);
