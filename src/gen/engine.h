#pragma once

#include "gen/report.h"
#include "loop/loop.h"

// The transaction engine: the one path by which anything that units contribute changes.
//
//     request ─> prepare (asynchronous, each source) ─> one turn of the loop:
//                    stage each source ─> judge ─> swap the pointer ─> stop old, start new items
//                ─> leave(old units) ─> enter(new units) ─> report
//
// docs/internals/generations.md tells the whole story.

struct gen_source;
struct gen_stage;
struct gen_life_call;

// ---- requests -----------------------------------------------------------------------------------

struct gen_request {
    const char
        *trigger; // "watch", "api", "cli", "signal", "start", ...: lives as long as the program
    const struct str *names; // only these units; NULL: whatever changed. Copied
    size_t n_names;
    bool force;   // read and run again also what did not change
    bool dry_run; // report, commit nothing; implies wait_all
    bool
        wait_all; // wait for every source. Without it (the watcher) what is ready first is committed,
                  // and slow sources join a later run by themselves
};

/// The report of the run that covered a request; borrowed until the next run ends. NULL: the engine
/// was closed first.
typedef void gen_report_cb(const struct gen_report *r, void *arg);

// ---- sources ------------------------------------------------------------------------------------

enum gen_reason { GEN_START, GEN_RELOAD, GEN_REMOVE, GEN_DISABLE, GEN_STOP };
/// "start" "reload" "remove" "disable" "stop"
const char *gen_reason_name(enum gen_reason reason);

/// Where units come from. `arg` is what gen_source_add() was given.
struct gen_source_ops {
    const char *name; // for logs

    /// Find out what changed for this request; read, hash, start processes: everything that may take
    /// time. Ends with one gen_prepared(), at once or later. May be called again before what was found
    /// was staged: bring it up to date. `req` is borrowed for the call only.
    void (*prepare)(void *arg, struct gen_source *src, const struct gen_request *req);

    /// Load what was prepared into staging units, in this call; may not wait. Every change is said
    /// through gen_stage_*(); what is not mentioned is kept. commit() or abort() follows before the
    /// loop turns.
    void (*stage)(void *arg, struct gen_stage *s);
    void (*commit)(
        void *arg); // what was staged is the current set now; the pointer has been swapped
    void (*abort)(
        void *arg); // a dry run: forget what was staged; its units are released after this

    /// Lifecycle, after the swap. `u` leaves or has come; end with one gen_life_done(), at once or
    /// later, within a deadline of the source's own. Faults are diagnostics and stop nothing. NULL:
    /// nothing to call.
    void (*leave)(void *arg, struct gen_unit *u, enum gen_reason why, struct gen_life_call *call);
    void (*enter)(void *arg, struct gen_unit *u, enum gen_reason why, struct gen_life_call *call);

    /// The last generation that held `u` is freed (or it was never committed): nothing of it remains.
    /// Free `u->data` and forget `u`. Never called from inside another call of the engine's user, but for abort and
    /// failed staging. NULL: nothing to do.
    void (*release)(void *arg, struct gen_unit *u);
};

/// The source is ready. `something`: there is something to stage; a run of the watcher does not stop
/// for a source that has nothing.
void gen_prepared(struct gen_source *src, bool something);
/// A lifecycle call is over; `fault` (START_FAILED, SHUTDOWN_FAILED, SHUTDOWN_TIMEOUT) or NULL.
void gen_life_done(struct gen_life_call *call, const struct gen_diag *fault);

// ---- staging ------------------------------------------------------------------------------------

/// The request that the run answers; of several that were joined, all in one.
const struct gen_request *gen_stage_request(struct gen_stage *s);

/// Begin a new version; its code may register from now on. Unless gen_stage_put() follows, it is
/// discarded with all its registrations when stage() returns.
struct gen_unit *gen_stage_unit(struct gen_stage *s, const struct gen_unit_spec *spec);
/// It loaded: it is to replace the version that serves, or to be added. A name that another source
/// owns is refused (NAME_DUPLICATE) and false.
bool gen_stage_put(struct gen_stage *s, struct gen_unit *u);
/// The unit goes. `why`: GEN_REMOVE or GEN_DISABLE. Nothing happens when there is none. Problems that
/// stood are forgotten.
void gen_stage_remove(struct gen_stage *s, const char *name, enum gen_reason why);
/// The newest version is not taken: the last good one, if any, continues to serve; the diagnostic is
/// kept until the name is put, removed, cleared or refused again. `state`: GEN_FAILED, GEN_DISABLED,
/// GEN_UNTRUSTED, GEN_HELD; also GEN_KEPT for a note that is not a failure (PROTECTED). After
/// gen_stage_remove() nothing of the name serves and it is listed in this state. `d` may be NULL.
void gen_stage_refuse(struct gen_stage *s, const char *name, enum gen_state state,
                      const struct gen_diag *d);
/// The same for a name that was put in this stage: the version that was put serves, but it is not the
/// newest (an earlier one was taken: the last good, the last trusted, a held one).
void gen_stage_stand(struct gen_stage *s, const char *name, enum gen_state state,
                     const struct gen_diag *d);
/// The load order changed around a unit that stays as it is.
void gen_stage_reorder(struct gen_unit *u, int order);
/// One more diagnostic for a name that was refused in this stage.
void gen_stage_note(struct gen_stage *s, const char *name, const struct gen_diag *d);
/// The problem of `name` is gone without a new version (the file is again what serves).
void gen_stage_clear(struct gen_stage *s, const char *name);
/// Something that cannot be swapped. It is kept as long as a refusal of `name`; otherwise it belongs
/// to this report only.
void gen_stage_need(struct gen_stage *s, const char *name, enum gen_need kind, const char *reason);

// ---- the engine ---------------------------------------------------------------------------------

/// Events for the hub's stream: `fields` is a JSON object text without its braces.
typedef void gen_event_cb(void *arg, const char *type, struct str fields);

/// An empty engine at generation 0. `event` may be NULL.
struct gen_engine *gen_open(struct loop *l, gen_event_cb *event, void *arg);

/// Add a source; units of earlier ones come first in load order. `ops` lives as long as the engine.
/// Only before the first request.
struct gen_source *gen_source_add(struct gen_engine *e, const struct gen_source_ops *ops,
                                  void *arg);

/// Go on counting generations after `number`, that of the last one before a restart. Only before the
/// first one was made; a source may say it while it prepares.
void gen_set_number(struct gen_engine *e, uint64_t number);
/// The tools that are built in: a unit has one of these names only with `override`. Lives as long as
/// the engine; NULL at the end.
void gen_set_builtins(struct gen_engine *e, const char *const *names);

/// A generation was committed; `added`, `changed`, `removed` are units of it or of the one before. All
/// NULL and `trigger` "register" for one of registrations.
struct gen_committed {
    uint64_t generation;
    const char *trigger;
    struct gen_unit *const *added, *const *changed, *const *removed;
    size_t n_added, n_changed, n_removed;
};
typedef void gen_commit_cb(const struct gen_committed *c, void *arg);
/// Be told of every commit, after the events. One listener.
void gen_on_commit(struct gen_engine *e, gen_commit_cb *cb, void *arg);

/// Ask for a run. `cb` (may be NULL) gets the report of the run that covers the request: a run that
/// had begun does not, its successor does, once for all requests that came meanwhile. Never called from inside
/// this function. Once the engine closes `cb` gets NULL.
void gen_request(struct gen_engine *e, const struct gen_request *req, gen_report_cb *cb, void *arg);

/// Something outside of the units that decides what they offer was changed (a choice): a generation of the
/// same units at the end of this turn. `trigger` lives as long as the program.
void gen_bump(struct gen_engine *e, const char *trigger);

/// The current set, with everything registered so far. Borrowed until the loop turns: pin it. NULL
/// once gen_close() has stopped everything.
struct gen *gen_current(struct gen_engine *e);
/// The number of the current generation, on any thread; registrations of this turn are not counted yet.
uint64_t gen_serving(const struct gen_engine *e);
/// The report of the last run; NULL before the first.
const struct gen_report *gen_last_report(const struct gen_engine *e);
/// The state of a unit: GEN_LOADED, the state in which its newest version was refused, or
/// GEN_REMOVED when the name is not known.
enum gen_state gen_state_of(const struct gen_engine *e, struct str name);
bool gen_is_running(const struct gen_engine *e); // a run is under way

/// Keep a problem of the hub itself (WATCH_DEGRADED): one for each (code, path).
void gen_warn(struct gen_engine *e, const struct gen_diag *d);
void gen_unwarn(struct gen_engine *e, enum gen_code code, const char *path); // path may be NULL

/// Replace all problems of that `source` ("config") by copies of these. True when they were others.
bool gen_set_warnings(struct gen_engine *e, const char *source, const struct gen_diag *list,
                      size_t n);

/// leave(GEN_STOP) for every unit, then everything goes as soon as nothing is pinned and every source
/// has answered its prepare() and lifecycle calls. Waiting requests get NULL. `done` (may be NULL) is
/// called when the engine is freed.
void gen_close(struct gen_engine *e, loop_fn *done, void *arg);
