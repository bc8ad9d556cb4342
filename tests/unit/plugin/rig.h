#pragma once

// A small hub: loop, engine, watcher, improvements, and a heart that beats on the same loop.

#include "base/map.h"
#include "hook/args.h"
#include "hook/run.h"
#include "plugin/improvements.h"
#include "unit/loop.h"
#include "unit/plugin/plugin_programs.h" // made by meson

struct rig {
    struct loop loop;
    struct gen_engine *engine;
    struct watcher *watcher;
    struct improvements *imp;
    struct timer beat;
    uint64_t last_beat_ns;
    uint64_t longest_ns; // between two beats, on test_own_ns()
    struct buf log;      // all that improvements logged, a line each
    struct buf emitted;  // names of events that they emitted, a line each
    char *emitted_last;  // the last one's data
    char home[300], dir[320];
    bool closed;
};

/// A home of the test's own with a token in it and an empty improvements directory.
void rig_home(struct rig *r);
void rig_open(struct rig *r);  // all of the above, running in that home
void rig_begin(struct rig *r); // both
/// Stop it in good order; fails when a handle, a process or a unit is left.
void rig_end(struct rig *r);

/// Put `text` at improvements/NAME (with its extension) by rename, as editors do.
void rig_save(struct rig *r, const char *name, struct str text);
void rig_remove(struct rig *r, const char *name);

/// Turn the loop until `name` (without extension) is served, or failed: returns the state.
enum gen_state rig_settle(struct rig *r, const char *name);
/// Turn the loop until revision `revision` of it serves.
void rig_wait_revision(struct rig *r, const char *name, uint64_t revision);
/// Turn the loop until it is neither served nor known.
void rig_wait_gone(struct rig *r, const char *name);
/// The unit that serves, or NULL.
struct gen_unit *rig_unit(struct rig *r, const char *name);
/// The first diagnostic that stands against it; NULL when none does.
const struct gen_diag *rig_diag(struct rig *r, const char *name);
/// Ask for a run that waits for everything and return its report (borrowed until the next run).
const struct gen_report *rig_reload(struct rig *r, bool force, bool dry_run);

/// One dispatch of a point with these arguments, waited for.
struct rig_args {
    const char *session; // ctx.session_id; NULL: none
    char *value;         // JSON text of the last argument; replaced by a chain
    int asked, changed;  // handlers, over all dispatches
};
enum hook_answer rig_hook(struct rig *r, const char *point, struct rig_args *args);
/// The fault of the last dispatch, "" for none.
const char *rig_hook_fault(void);

/// Call tool `name`; returns the status and leaves output or message in `text` (free() it).
int rig_tool(struct rig *r, const char *name, const char *input, uint32_t timeout_ms, char **text);

/// The process that runs the improvement: the child of its supervisor. 0 for none.
int rig_pid(struct rig *r, const char *name);
/// Its host; NULL when none serves.
struct host *rig_host(struct rig *r, const char *name);
/// The first child of process `pid` that is not `other`; 0 when there is none.
int rig_child(int pid, int other);

#define RIG_WAIT(r, condition)                                                                     \
    do {                                                                                           \
        uint64_t rig_until = loop_now(&(r)->loop) + 60000; /* hang guard */                        \
        while (!(condition)) {                                                                     \
            if (loop_now(&(r)->loop) > rig_until) {                                                \
                test_fail(__FILE__, __LINE__, "never came: %s", #condition);                       \
            }                                                                                      \
            loop_run_once(&(r)->loop, true);                                                       \
        }                                                                                          \
    } while (0)
