#pragma once

// An engine with fake sources: what they find, how long they take and what their units register is
// said by the test; what the engine does is counted and written down.

#include "gen/engine.h"
#include "hook/run.h"
#include "unit/loop.h"

enum { FAKE_SOURCES = 2, FAKE_PLAN = 8 };

struct fake_world;
struct fake_source;

/// What a source says of one name in its next stage.
struct fake_act {
    enum { FAKE_PUT, FAKE_THROW, FAKE_GONE, FAKE_REFUSE, FAKE_CLEAR } what;
    const char *name;
    const char *tool;  // registered by the unit; NULL: none
    const char *about; // of the tool
    const char *hook;  // an observer of this event; NULL: none
    const char *message;
    enum gen_state state; // FAKE_REFUSE
    const char *need;     // a reason: needs a restart of the hub
    int order;
    const char *prefer; // a plain name that it wins; NULL: none
    bool override;      // of the tool
    bool stands;        // after FAKE_PUT: what lies there failed
};

struct fake_source {
    struct fake_world *world;
    struct gen_source *src;
    const char *name;
    bool slow;      // prepared by fake_ready() only
    bool life_slow; // lifecycle calls answered by fake_life() only
    const char *leave_fault, *enter_fault;
    struct fake_act plan[FAKE_PLAN];
    size_t n_plan;
    struct gen_life_call *call;
    unsigned prepares, stages, commits, aborts, leaves, enters, releases;
    struct gen_request seen; // of the last prepare; names are not kept
    size_t seen_names;
};

struct fake_world {
    struct test_clock clock;
    struct loop loop;
    struct gen_engine *engine;
    struct fake_source source[FAKE_SOURCES];
    char steps[4096];                    // "stage a;swap..." in order
    char events[8192];                   // "type {fields}\n"
    void (*probe)(struct fake_world *w); // called at every step; may be NULL
    unsigned reports, refused;           // callbacks with and without a report
    unsigned starts, stops, item_releases, hook_releases;
    unsigned hook_calls;
    bool closed;
};

/// `n` sources, 1 or 2, all fast and with nothing to say.
void fake_open(struct fake_world *w, size_t n);
/// Close the engine and the loop; everything must have been released.
void fake_close(struct fake_world *w);
/// Turns of the loop until nothing is left to do.
void fake_settle(struct fake_world *w);

void fake_plan(struct fake_source *s, struct fake_act act); // one more thing for the next stage
void fake_ready(struct fake_source *s);
void fake_life(struct fake_source *s); // answer the lifecycle call that waits

/// Ask, and count the answer in `reports`.
void fake_ask(struct fake_world *w, const struct gen_request *req);
/// Plan, ask for a full run, settle; the report.
const struct gen_report *fake_load(struct fake_world *w, struct fake_act act);
const struct gen_report *fake_reload(struct fake_world *w);

struct gen *fake_current(struct fake_world *w);
struct gen_item *fake_tool(struct fake_world *w, const char *name);
size_t fake_count_events(const struct fake_world *w, const char *type);
/// The row of that name in a report, or NULL.
const struct gen_report_row *fake_row(const struct gen_report *r, const char *name);
const struct gen_diag *fake_diag(const struct gen_report *r, enum gen_code code);
/// Run the observers of an event in the current generation; how many ran.
size_t fake_notify(struct fake_world *w, const char *event);

/// Items and targets that count in the world.
extern const struct gen_item_ops fake_item_ops;
extern const struct hook_target fake_target;
