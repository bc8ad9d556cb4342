#pragma once

// A small hub for plugins: loop, engine, store, choices, trust and the plugins' source, with a runner
// whose programs are lines: "tool NAME" offers a tool, "throw" fails, "once" too unless it is the first
// load of all, anything else loads.

#include "config/config.h"
#include "config/home.h"
#include "plugin/plugins.h"
#include "store/choices.h"
#include "store/store.h"
#include "trust/trust.h"
#include "unit/loop.h"

struct plugs {
    struct loop loop;
    struct home home;
    struct config *config;
    struct config_live settings; // has it
    struct hub_parts hub;        // what is below, for the parts under test
    struct store *store;
    struct choices *choices;
    struct trust *trust;
    struct watcher *watcher;
    struct gen_engine *engine;
    struct plugins *plugins;
    struct plugin_runner runner;
    const struct plugin_version *dead; // of which the runner says so; NULL: none
    const char *repo;                  // given to the next plugs_open(); NULL: none
    size_t tries, loads, frees, enters, leaves;
    struct buf events; // types, a line each
    bool loaded, closed;
};

/// A home of the test's own, with nothing in it.
void plugs_home(struct plugs *h);
/// Come up in that home, until the first generation serves.
void plugs_open(struct plugs *h);
/// Go down in good order; fails when a version or a handle is left.
void plugs_close(struct plugs *h);
void plugs_fini(struct plugs *h); // the home goes

/// Write a file of the home by rename; directories are made.
void plugs_write(struct plugs *h, const char *rel, const char *text);
void plugs_remove(struct plugs *h, const char *rel);
/// Ask and wait for a reload; the report is borrowed until the next.
const struct gen_report *plugs_reload(struct plugs *h, bool force, bool dry_run);
const struct gen_report *plugs_undo(struct plugs *h, uint64_t to);
/// Turn the loop until the next report of the watcher.
void plugs_wait_generation(struct plugs *h, uint64_t number);

uint64_t plugs_number(struct plugs *h);
struct plugin_row plugs_row(struct plugs *h, const char *name); // fails when there is none
bool plugs_has_tool(struct plugs *h, const char *name);
/// The first diagnostic of that code in the last report, or NULL.
const struct gen_diag *plugs_diag(struct plugs *h, enum gen_code code);

#define PLUGS_WAIT(h, condition)                                                                   \
    do {                                                                                           \
        uint64_t plugs_until = loop_now(&(h)->loop) + 60000; /* hang guard */                      \
        while (!(condition)) {                                                                     \
            if (loop_now(&(h)->loop) > plugs_until) {                                              \
                test_fail(__FILE__, __LINE__, "never came: %s", #condition);                       \
            }                                                                                      \
            loop_run_once(&(h)->loop, true);                                                       \
        }                                                                                          \
    } while (0)
