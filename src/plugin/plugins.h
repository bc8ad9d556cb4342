#pragma once

#include "config/hub_parts.h"
#include "gen/engine.h"
#include "plugin/entries.h"
#include "plugin/manifest.h"
#include "plugin/runner.h"
#include "watch/watch.h"

// Plugins as a source of the transaction engine: found by entry, layer or file, read once, judged,
// loaded by their runner, kept by content, undone. Everything belongs to the loop thread.

struct front;
struct plugins;
struct config;

/// Borrowed until plugins_free().
struct plugins_opts {
    const struct hub_parts *hub;
    struct gen_engine *engine;
    struct watcher *watcher;
    /// The settings with those of the project at `root`, borrowed for the call; NULL: it brings none that
    /// are trusted. See plugins_project_changed(). May be NULL: none does.
    const struct config *(*project_config)(void *arg, const char *root);
    void *project_arg;
    const struct plugin_runner *runners[LANG__COUNT]; // NULL: there is no host for that language
    const char *shipped_dir;                          // NULL: none
    const char *repo;                                 // the project opened at start; NULL: none
    bool off;                                         // as after plugins_switch(ps, false)
};

/// Add the source; the first run waits until what was kept (history, held versions) is read.
struct plugins *plugins_open(const struct plugins_opts *o);
/// Before gen_close(): watch no more, begin nothing.
void plugins_stop(struct plugins *ps);
/// When gen_close() is done. Memory goes when the worker is done. NULL is allowed.
void plugins_free(struct plugins *ps);

/// The settings of a project were read again: a run is asked for that takes them.
void plugins_project_changed(struct plugins *ps);
/// Whether the feature `plugins` shall be on: as [policy] says, else as was chosen, else as the settings say.
bool plugins_wanted(const struct choices *chosen, const struct config *config);
/// The feature `plugins` is on or off: off unloads all of them.
void plugins_switch(struct plugins *ps, bool on);
bool plugins_is_on(const struct plugins *ps);

/// `dir` is the real path, borrowed for the call; NULL: there is no such directory, or the hub stops.
typedef void plugins_entered(void *arg, const char *dir);
/// A session, run or shell works in the absolute `dir`: open its project, if that is trusted, until as many
/// plugins_leave_dir() with the real path came. `cb` (may be NULL) is called when what it brings serves,
/// never from inside this call; without a directory there is nothing to leave.
void plugins_enter_dir(struct plugins *ps, const char *dir, plugins_entered *cb, void *arg);
void plugins_leave_dir(struct plugins *ps, const char *real_dir);
/// Does `unit` reach a session that works in `dir`? A project's plugins reach sessions inside it only,
/// and there they stand in the place of the user's of the same name.
bool plugins_reaches(const struct plugins *ps, struct str unit, const char *dir);

// ---- what there is -------------------------------------------------------------------------

/// One plugin as people see it. Everything is borrowed until the loop turns.
struct plugin_row {
    const char *name; // its unit's
    const char *path, *source, *layer, *host;
    const char *project; // NULL: the user's
    enum gen_state state;
    bool enabled, required;
    const struct gen_unit *unit;      // what serves; NULL: nothing does
    const struct plugin_shape *shape; // of what serves, else of what is on disk; NULL: neither
    const struct tree *tree;          // the files of that shape
    const struct json *options;       // NULL: none
    const char *hash;                 // of what serves; NULL
    const char *pending_hash;         // of what is on disk and does not run; NULL: nothing waits
    int64_t pending_at;               // ms since 1970
    const char *pending_error;        // NULL: it is not broken
    const struct plugin_place *const *shadows; // of earlier layers, which it replaces
    size_t n_shadows;
    const struct json *metadata;      // what its code said of itself; NULL: nothing
    const struct plugin_version *run; // what serves, for plugin_row_memory(); NULL: nothing
};
/// Bytes that what serves has in use; 0: nothing serves. Of a plugin in a process it is read from /proc.
size_t plugin_row_memory(const struct plugin_row *r);

/// The plugins, in load order; by name: false when there is none. A row is borrowed until the next run.
size_t plugins_count(const struct plugins *ps);
struct plugin_row plugins_at(const struct plugins *ps, size_t i);
bool plugins_find(const struct plugins *ps, struct str name, struct plugin_row *out);

/// The web side of what serves as a plugin; borrowed like a row.
struct plugin_front {
    uint64_t revision;
    const char *hash;  // of all that a page could be given
    const char *entry; // the module that a page imports, relative to the revision's address
    const char *style; // its style sheet, in the same way; NULL: it has none
    const struct json *options;
};
/// False: there is no such plugin, or no web side of it can be served.
bool plugins_front(const struct plugins *ps, struct str name, struct plugin_front *out);
/// What compiles web sides; NULL once stopped.
struct front *plugins_compiler(const struct plugins *ps);
/// One file of it: what the compiler made, or a file of the tree that a page may have. False: it has no such file.
bool plugins_front_file(const struct plugins *ps, struct str name, struct str path,
                        struct str *bytes, const char **type);

// ---- installing while the hub runs ---------------------------------------------------------

/// An entry that code asked for, in memory only. Strings are copied.
struct plugin_install {
    const char *path;           // absolute
    const char *name;           // NULL: that of its manifest or file
    const struct json *options; // NULL: {}
    enum plugin_hot hot;
};
/// Replace the entries of `owner` by these (n may be 0). The next run takes them; this asks for none.
void plugins_install(struct plugins *ps, const char *owner, const struct plugin_install *list,
                     size_t n);
/// Keep a plugin out until plugins_load() names it; ERR_NOT_FOUND, ERR_DENIED when it is required. The
/// next run takes it.
int plugins_unload(struct plugins *ps, struct str name, struct err *e) MUST_CHECK;
/// End what an undo made of a unit: the next run takes what is on disk, and drops the unit when nothing
/// is there. False: no version of it was held, and none was kept out.
bool plugins_forget_hold(struct plugins *ps, struct str name);
void plugins_load(struct plugins *ps, struct str name);

// ---- going back ----------------------------------------------------------------------------

/// One kept generation, newest first.
struct plugin_past {
    uint64_t generation;
    int64_t at; // ms since 1970
    struct str trigger;
    const struct json *added, *changed, *removed; // arrays of names
    const struct json *chosen;                    // {choice that it changed: what it was}
};
/// The generations that are kept, newest first.
size_t plugins_past_count(const struct plugins *ps);
struct plugin_past plugins_past_at(const struct plugins *ps, size_t i);
/// What served then: {unit: {hash, path, layer, revision, ...}}, made in `a`.
const struct json *plugins_past_set(const struct plugins *ps, size_t i, struct arena *a);

/// Call `cb` when all that was committed so far is in state/hub.json and its versions are on disk, or cannot be: who
/// is told of a commit after that finds it after a kill. It may be at once; once, also when the hub stops.
void plugins_await_saved(struct plugins *ps, loop_fn *cb, void *arg);

/// A choice was made by command and is in force: it can be undone. Nothing happens when the run that took it
/// over has committed, or nothing differs.
void plugins_chosen(struct plugins *ps);

/// Ask for a new generation with the versions and choices of an earlier one: `to` its number, or 0 for the
/// one before the last change, of whatever unit or choice. `cb` gets the report. ERR_NOT_FOUND when it is not kept, ERR_CONFLICT when
/// there is nothing to go back to.
int plugins_undo(struct plugins *ps, uint64_t to, gen_report_cb *cb, void *arg,
                 struct err *e) MUST_CHECK;
/// The same only for the plugins whose files are at one of `n` absolute paths: they serve what they did in
/// generation `to`, and it is a change that can be undone. ERR_NOT_FOUND when that is not kept, or none of them has changed since.
int plugins_undo_at(struct plugins *ps, uint64_t to, const char *const *paths, size_t n,
                    gen_report_cb *cb, void *arg, struct err *e) MUST_CHECK;
