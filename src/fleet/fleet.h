#pragma once

#include "base/err.h"
#include "base/json.h"
#include "loop/loop.h"

// The hubs that share a store: who they are, what they are for, and whether they take new runs. A hub with
// a store of its own is a fleet of one. Loop thread.

struct choices;
struct config;
struct config_live;
struct fleet;
struct home;
struct store;

/// Everything is borrowed until fleet_free().
struct fleet_opts {
    struct loop *loop;
    const struct home *home;
    struct config_live *config;
    struct store *store;
    struct choices *choices;
    int64_t (*generation)(void *arg); // of this hub
    void *arg;
};

/// A run that this hub took: from the queue, or from a hub that was lost. Borrowed for the call.
struct fleet_claim {
    struct str id, body, env; // its document; the client's environment, an object
    int64_t epoch;
    bool lost; // a hub had it
};

/// The part that runs bots on this hub, filled in by itself.
struct fleet_runner {
    size_t (*running)(void *arg);            // how many runs it has
    bool (*has)(void *arg, struct str id);   // does it have this one?
    bool (*moves)(void *arg, struct str id); // could another hub go on with it?
    void (*claimed)(void *arg, const struct fleet_claim *c);
    /// Another hub has the run, or may have it: end all that it does, and write nothing.
    void (*lost)(void *arg, struct str id);
    /// A user of another hub wants it to end (`stops` not 0; 2: at once), or sent it a message, `said`. `heard` is
    /// the value for fleet_save.heard once the run has taken the message.
    void (*wanted)(void *arg, struct str id, unsigned stops, struct str said, int64_t heard);
    void *arg;
};

/// The state of a plugin; borrowed until the next turn of the loop.
struct fleet_plugin {
    const char *unit;
    const char *fault; // why its files do not serve; NULL: they do, or are not meant to
};
/// `generation` is the one that serves then; 0: the hub stops.
typedef void fleet_reloaded(void *arg, int64_t generation);
typedef void fleet_path_cb(void *arg, const char *path, const char *project);

/// The plugins of this hub, filled in by src/main.
struct fleet_plugins {
    /// The choices made by command have changed on another hub. One commit.
    void (*chosen)(void *arg);
    /// Why this hub takes no plugins now; NULL: it does.
    const char *(*off)(void *arg);
    /// Call `add` for every plugin that was found in the layers of the user and of trusted projects.
    void (*each)(void *arg, fleet_path_cb *add, void *to);
    /// Commit what is on disk, as after a save; `done` later.
    void (*reload)(void *arg, fleet_reloaded *done, void *done_arg);
    /// The plugin whose files are at `path`; false: none is known there.
    bool (*find)(void *arg, const char *path, struct fleet_plugin *out);
    /// Let the plugins at `paths` serve what they did in generation `to`, and leave their files alone; `done`
    /// later, unless it fails at once: that generation is not kept.
    int (*hold)(void *arg, int64_t to, const char *const *paths, size_t n, fleet_reloaded *done,
                void *done_arg, struct err *e);
    /// Report a step of a roll-out: members of a JSON object without its braces.
    void (*told)(void *arg, struct str fields);
    void *arg;
};

/// The name of the hub of `home`: `[store] hub_name`, else the host's name and a hash of the home. Caller
/// frees.
char *fleet_hub_name(const struct config *c, const struct home *home);

/// The fleet of the hub whose store is `o->store`, which is ready. Asks nothing yet: see fleet_take_runs().
/// `o` is copied. Never NULL; end it with fleet_close(), then fleet_free().
struct fleet *fleet_open(const struct fleet_opts *o);
/// Ask nothing any more; `done` when the last answer came. Then fleet_free().
void fleet_close(struct fleet *f, loop_fn *done, void *arg);
/// Free it, after `done` of fleet_close(); the store may be closed by then. NULL is allowed.
void fleet_free(struct fleet *f);
/// Do other hubs use this store?
bool fleet_shared(const struct fleet *f);
/// Is this hub told to take no new runs? Of a shared store, as it was at the last look.
bool fleet_is_draining(const struct fleet *f);
/// The name of this hub; borrowed.
const char *fleet_name(const struct fleet *f);
/// Copied. Before fleet_take_runs().
void fleet_set_plugins(struct fleet *f, const struct fleet_plugins *p);
/// Copied.
void fleet_set_runner(struct fleet *f, const struct fleet_runner *r);

/// A JSON text, borrowed for the call, or `e`. Never from inside the call that asked.
typedef void fleet_text_cb(void *arg, struct str json, const struct err *e);

/// `{hubs: [{name, state: live|draining|lost, labels, generation, runs, seen_at}]}`, by name.
void fleet_list(struct fleet *f, fleet_text_cb *cb, void *arg);
/// Replace the labels of hub `name` by an array of texts, or NULL for none; answers with its row. ERR_NOT_FOUND, ERR_INVALID.
void fleet_label(struct fleet *f, struct str name, const struct json *labels, fleet_text_cb *cb,
                 void *arg);
/// Let hub `name` take no new runs, or take them again; answers with its row. ERR_NOT_FOUND.
void fleet_drain(struct fleet *f, struct str name, bool on, fleet_text_cb *cb, void *arg);

// ---- plugins over hubs ---------------------------------------------------------------------------

/// Members of a JSON object without its braces, borrowed for the call: `"hubs": [{name, state:
/// committed|rolled_back|skipped|lost, generation_before, generation_after, reason?, conflicts?, skipped?}],
/// "stopped": null or why`. `ok`: every hub that was there has all of it.
typedef void fleet_rolled_cb(void *arg, bool ok, struct str fields, const struct err *e);

/// What is rolled out. Copied.
struct fleet_roll {
    int64_t previous;        // the generation before the reload
    const struct str *names; // of plugins: all others stay on the other hubs as they are
    size_t n_names;          // 0: all plugins
    /// Send nothing: the hubs are `planned` or `skipped`, and there is a member `"changes": [{plugin, project?,
    /// change: added|changed|removed}]`, `plugin` being the path below home or project.
    bool dry_run;
};
/// Publish the plugins of this hub, whose reload is done, and bring them to the other hubs of its user, one after
/// the other, this one first. When a hub cannot commit them, is lost, or its plugins fail as they did not before, all go
/// back. `cb` comes once, also when this hub stops meanwhile. ERR_UNSUPPORTED for a hub alone, ERR_CONFLICT when a
/// roll-out is under way or this hub is not up to date, ERR_INVALID for a name that no plugin here has that travels.
void fleet_roll_out(struct fleet *f, const struct fleet_roll *what, fleet_rolled_cb *cb, void *arg);

// ---- runs of a shared store ----------------------------------------------------------------------

/// From now on this hub takes runs, or no longer does. A hub alone does nothing.
void fleet_take_runs(struct fleet *f);
void fleet_stop_taking(struct fleet *f);

/// A run that begins. Everything is copied.
struct fleet_new {
    struct str id, bot, project, repository, working_dir, env, body;
    struct str on;      // a label; empty: anywhere
    int64_t started_at; // milliseconds since 1970
    bool here;          // on this hub, at once; else any hub takes it
};
/// `epoch` is what its writes must name; 0: it waits in the queue.
typedef void fleet_epoch_cb(void *arg, int64_t epoch, const struct err *e);
/// ERR_CONFLICT when a run of that id has not ended.
void fleet_run_add(struct fleet *f, const struct fleet_new *n, fleet_epoch_cb *cb, void *arg);

/// A write of a run that this hub holds under `epoch`. Everything is copied.
struct fleet_save {
    struct str id, body, remote;
    int64_t epoch, heard;
    bool ended, moves; // `moves`: another hub can go on with it
};
typedef void fleet_done(void *arg, int status, const struct err *e);
/// ERR_CONFLICT, and nothing is written, when this hub does not hold it any more.
void fleet_run_save(struct fleet *f, const struct fleet_save *s, fleet_done *done, void *arg);
/// Replace the document of a run that has ended, on any hub; an empty one removes the run. ERR_CONFLICT.
void fleet_run_edit(struct fleet *f, struct str id, struct str body, fleet_done *done, void *arg);
/// Give a run back: another hub may take it. `refuse`: this hub cannot run it and will not take it again.
void fleet_run_return(struct fleet *f, struct str id, int64_t epoch, bool refuse);
/// Ask the hub that has it to end it, or say something to it. ERR_CONFLICT when it has ended.
void fleet_run_stop(struct fleet *f, struct str id, bool force, fleet_done *done, void *arg);
void fleet_run_say(struct fleet *f, struct str id, struct str text, fleet_done *done, void *arg);

/// Which runs are asked for; empty texts and 0 ask for nothing.
struct fleet_query {
    struct str id;      // begins so
    struct str session; // one of its sessions begins so
    struct str bot, project, repository, state;
    int64_t before;       // started before, or then
    struct str before_id; // with an id less than this
    size_t limit;
};
struct fleet_run {
    struct str body, state, hub;
    int64_t epoch, lease_until; // milliseconds since 1970; 0: no hub holds it
};
/// Rows are borrowed for the call, newest first.
typedef void fleet_runs_cb(void *arg, const struct fleet_run *rows, size_t n, const struct err *e);
void fleet_runs(struct fleet *f, const struct fleet_query *q, fleet_runs_cb *cb, void *arg);

/// May a run begin on this hub alone? `on` (empty: anywhere) is a label that its hub must have. When not, `e`
/// says why. Always true of hubs that share a store: there a run may wait.
bool fleet_may_start(struct fleet *f, struct str on, struct err *e);
