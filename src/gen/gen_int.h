#pragma once

#include <stdatomic.h>

#include "base/map.h"
#include "base/vec.h"
#include "gen/engine.h"
#include "hook/run.h"

// What the files of gen/ share.

/// See index.c.
struct gen__index {
    struct gen__entry {
        uint64_t hash;    // tells kinds apart
        const char *name; // borrowed
        void *value;      // NULL: a free entry
    } * entries;
    size_t cap, n;
};

/// By kind: differs when what clients see of that kind does. See kinds.def.
struct gen__marks {
    uint64_t of[GEN__KINDS];
};
extern const char *const gen__list_events[GEN__KINDS]; // NULL: no event

struct gen_item {
    struct gen_unit *unit; // outlives the item
    uint64_t id;
    enum gen_kind kind;
    char *name;                     // "" when it has none
    char *alias;                    // "unit:name"
    char *about;                    // "" when it has none
    uint64_t name_hash, alias_hash; // for the index
    uint64_t mark;                  // of what clients see of it; 0 for kinds without an event
    bool is_builtin;                // it is a tool, and a built-in one has its name
    const struct gen_item_ops *ops; // never NULL
    const void *face;
    void *data;
    struct hook *hook; // GEN_HOOK
    unsigned refs;     // its unit, and the generations that hold it
    enum gen_naming naming;
    bool off;     // taken back
    bool started; // ops->start() was called and ops->stop() was not
};

struct gen {
    struct gen_engine *engine;
    uint64_t number;
    unsigned pins;
    vec(struct gen_unit *) units; // in load order
    vec(struct gen_item *) items;
    struct gen__index by_name; // items by kind and name, and by kind and alias
    struct gen__index by_unit; // units by name
    struct hook_set *hooks;
    vec(struct gen_diag) conflicts;
    struct gen__marks marks;
};

struct gen_source {
    struct gen_engine *engine;
    const struct gen_source_ops *ops;
    void *arg;
    size_t index;
    enum { SOURCE_IDLE, SOURCE_PREPARING, SOURCE_READY } state;
    bool something; // ready, with something to stage
    bool again;     // what it prepares does not cover the run under way: prepare once more
    bool owed;      // a run went on without it
};

/// The problems of a name: why its newest version is not the one that serves.
struct gen_trouble {
    char *name;
    struct gen_source *source;
    enum gen_state state;
    vec(struct gen_diag) diags;
    vec(struct gen_report_need) needs; // of this trouble; `plugin` is not set
};
typedef vec(struct gen_trouble) gen__troubles;

/// One name whose version changes in a run.
struct gen_change {
    struct gen_unit *old; // NULL: added. Kept alive by the generation that leaves
    struct gen_unit *new; // NULL: removed
    enum gen_reason why;  // of leaving
};

struct gen_stage {
    struct gen_engine *engine;
    struct gen_source *source; // whose stage() is under way
    const struct gen_request *request;
    vec(struct gen_unit *) units; // all that were begun, each with a reference
    vec(struct gen_change) changes;
    vec(struct gen_report_need) needs; // of this report only; strings are ours
    gen__troubles troubles;            // as they are after this run
};

struct gen_waiter {
    gen_report_cb *cb;
    void *arg;
};

struct gen_run {
    struct gen_request req; // names are ours
    vec(struct gen_waiter) waiters;
    bool owed; // only what is ready already
    uint64_t began_ns;
    uint64_t previous; // number of the generation before
    bool committed;
    struct gen *old, *made; // pinned: what left, what came; NULL when nothing was made
    struct gen_stage stage;
    size_t life_left;            // lifecycle calls under way
    bool entering;               // those of what has come; else of what left
    vec(struct gen_diag) faults; // of lifecycle calls
    struct gen_run *next;
};

enum gen_phase { PHASE_IDLE, PHASE_PREPARE, PHASE_TURN, PHASE_LIFE, PHASE_STOP };

struct gen_engine {
    struct loop *loop;
    gen_event_cb *event;
    void *event_arg;
    gen_commit_cb *committed;
    void *committed_arg;
    const char *const *builtins; // names of tools, NULL at the end; NULL: none
    vec(struct gen_source *) sources;
    struct gen *current;          // pinned; set by gen__serve()
    atomic_uint_fast64_t serving; // its number, for other threads
    uint64_t last_number;
    uint64_t order; // of the next registration or new name
    enum gen_phase phase;
    struct gen_run *run, *queue;
    struct gen_run *parked; // committed, with lifecycle calls under way
    struct loop_task *begin_task, *turn_task;
    size_t life_left; // calls of the end under way
    gen__troubles troubles;
    vec(struct gen_diag) warnings; // of the hub itself
    struct gen_report *last;

    // registrations of this turn
    bool amended; // not yet in `current`
    struct loop_task *amend_task;
    uint64_t amend_number, amend_previous;
    struct gen__marks amend_marks;
    const char *amend_trigger;

    size_t alive;            // generations not freed
    struct gen__index spare; // of the last one freed, for the next
    bool closing, stopped;
    loop_fn *closed;
    void *closed_arg;
};

static inline void gen__diag_free(struct gen_diag d) // for vec_fini_each()
{
    gen_diag_fini(&d);
}

// ---- unit.c -------------------------------------------------------------------------------------

struct gen_unit *gen__unit_new(struct gen_source *owner, const struct gen_unit_spec *spec);
struct gen_unit *gen__unit_ref(struct gen_unit *u);
void gen__unit_unref(struct gen_unit *u);
void gen__unit_start(struct gen_unit *u); // its items become part of the current generation
void gen__unit_stop(struct gen_unit *u);
struct gen_item *gen__item_ref(struct gen_item *it);
void gen__item_unref(struct gen_item *it);

// ---- index.c ------------------------------------------------------------------------------------

uint64_t gen__hash(int kind, struct str name);
/// For n names at most. The memory of `spare` is taken if it fits.
void gen__index_init(struct gen__index *ix, size_t n, struct gen__index *spare);
void gen__index_fini(struct gen__index *ix);
void *gen__index_get(const struct gen__index *ix, int kind,
                     struct str name); // NULL: it is not there
/// Where the value of that name is, to be set by the caller: NULL when the name is new. `name` is
/// borrowed, `hash` is its gen__hash().
void **gen__index_at(struct gen__index *ix, uint64_t hash, const char *name);

// ---- gen.c --------------------------------------------------------------------------------------

/// A generation of these units (sorted here), with one pin. Nothing sees it yet.
struct gen *gen__new(struct gen_engine *e, uint64_t number, struct gen_unit *const *units,
                     size_t n);

// ---- amend.c ------------------------------------------------------------------------------------

/// Something of a current unit was registered or taken back.
void gen__amend(struct gen_engine *e);
/// Put the registrations so far into `current`.
void gen__amend_fold(struct gen_engine *e);
/// Fold, and end the turn's own generation with its events.
void gen__amend_flush(struct gen_engine *e);

// ---- stage.c ------------------------------------------------------------------------------------

void gen__stage_init(struct gen_stage *s, struct gen_engine *e, const struct gen_request *req);
void gen__stage_fini(struct gen_stage *s);
/// Discard what was begun and not put.
void gen__stage_sweep(struct gen_stage *s);
struct gen_trouble *gen__trouble_find(gen__troubles *list, const char *name);
void gen__troubles_fini(gen__troubles *list);

// ---- turn.c, life.c -----------------------------------------------------------------------------

void gen__turn(void *engine); // a loop_fn
/// leave() and enter() for the changes of the run; ends with gen__finish().
void gen__life_begin(struct gen_engine *e);
/// leave(GEN_STOP) for all; ends with gen__stopped().
void gen__life_stop(struct gen_engine *e);

// ---- engine.c -----------------------------------------------------------------------------------

void gen__serve(struct gen_engine *e, struct gen *g); // `g`, pinned, is the current generation now
void gen__schedule(struct gen_engine *e);             // begin the next run, if there is one
void gen__finish(struct gen_engine *e, struct gen_run *run); // the run is over
void gen__stopped(struct gen_engine *e); // nothing of the last generation runs any more
void gen__source_joined(struct gen_source *src, bool dry_run);
void gen__maybe_free(struct gen_engine *e);

// ---- report.c, event.c --------------------------------------------------------------------------

struct gen_report *gen__report_new(struct gen_engine *e, struct gen_run *run);
void gen__report_free(struct gen_report *r);

void gen__event_commit(struct gen_engine *e, struct gen_run *run);
void gen__event_amended(struct gen_engine *e);
void gen__event_error(struct gen_engine *e, const char *plugin, const struct gen_diag *d);
