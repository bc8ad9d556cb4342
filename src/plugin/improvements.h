#pragma once

#include "gen/engine.h"
#include "plugin/host_unit.h"
#include "plugin/scopes.h"
#include "watch/watch.h"

// Improvements: Lua files that agents write, each run by a process of its own (`afloat host lua`)
// that is locked into their directory. A source of the transaction engine: a file is a unit
// "improvements/NAME". Everything belongs to the loop thread.

struct improvements;
struct plugins;

#define IMPROVEMENTS "improvements/" // with which the names of their units begin

/// An operation that an improvement asked for; borrowed for the call.
struct improvement_call {
    struct str op; // "event.emit" {name, data} or "worktree.list" {}
    const struct json *params;
};

struct improvements_opts {
    const char *dir;      // $AFLOAT_HOME/lua/improvements; need not exist yet
    const char *program;  // what runs `host lua PATH`: our own program
    const char *scopes;   // the file of scopes; NULL: kept in memory only
    const char *data_dir; // what config.data_dir() says
    struct plugins *past; // keeps versions; NULL: they are not kept
    /// Append the settings as a JSON object, secrets blanked; asked at each load.
    void (*config)(void *arg, struct buf *out);
    /// Do an operation of those above and put the answer into `answer`: 0 and a JSON text (empty:
    /// null), or a negative code and a message.
    int (*call)(void *arg, const struct improvement_call *c, struct buf *answer);
    /// A line that an improvement logged; may be NULL.
    void (*log)(void *arg, const char *name, enum log_level level, struct str text);
    void *arg;
};

/// Add the source to `e` and watch the directory. Everything in `o` is copied but what `arg` and
/// `args` point to; `wr` is borrowed. A run asked for before the directory was read waits for it.
int improvements_open(struct improvements **out, struct loop *l, struct gen_engine *e,
                      struct watcher *wr, const struct improvements_opts *o,
                      struct err *err) MUST_CHECK;

/// Before gen_close(): watch no more, end what is being tried.
void improvements_stop(struct improvements *imp);
/// When gen_close() is done. Memory goes when what is being written is on disk.
void improvements_free(struct improvements *imp);

/// Something happened that improvements may hear of; `data` is a JSON text. Only those that serve and
/// listen to it are told.
void improvements_event(struct improvements *imp, struct str name, struct str data);

/// Does any that serves listen to anything? Cheap: the caller makes no event otherwise.
bool improvements_listen(const struct improvements *imp);

/// The caller wrote these bytes to the file of `name`: the next run need not wait for the watcher.
void improvements_put(struct improvements *imp, struct str name, struct str bytes);

/// For whom improvement `name` (without "improvements/") is active.
struct scopes *improvements_scopes(struct improvements *imp);
