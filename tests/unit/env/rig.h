#pragma once

// A project in a directory of the test's own, with a loop, a watcher and a coordinator on it.

#include "base/path.h"
#include "env/build.h"
#include "env/env.h"
#include "env/gate.h"
#include "loop/proc.h"
#include "unit/loop.h"
#include "watch/watch.h"

struct rig {
    struct loop loop;
    struct watcher *watcher;
    char *root;                  // the project
    const char **base;           // its outer environment
    uint64_t timeout_ms;         // of a build; 0: the usual
    bool trusted;                // what the gate says
    const struct env_gate *gate; // instead of that
    struct env_coord *coord;
    // what was heard
    unsigned building, ready, failed, unchanged;
    struct buf heard; // "building a,b\nready\n" and so on
    struct buf log;   // lines of providers
    char *error;      // of the last failure
    int code;
    struct env_result *result;    // last one, referenced
    vec(struct env_input) inputs; // that the last build reported; only of the real builder
};

extern struct rig rig;

void rig_open(void);  // loop, launcher, watcher, an empty project
void rig_close(void); // fails if anything is left open

/// Write a file of the project; parents are made. `rig_remove` deletes one.
void rig_write(const char *rel, const char *text);
void rig_write_bytes(const char *rel, struct str bytes);
void rig_remove(const char *rel);
char *rig_path(const char *rel); // caller frees

/// Open the coordinator. NULL: the real builder, whose inputs rig_input() knows.
void rig_start(const struct env_builder *builder);
/// Run the loop until the counter reaches `n`.
void rig_wait(const unsigned *counter, unsigned n);
/// Run the loop for a time in which nothing is expected to happen.
void rig_idle(uint64_t ms);
/// Build once with the real builder and wait for the end. Returns the result or NULL.
struct env_result *rig_build(void);

const char *rig_get(const struct env_result *r, const char *name); // a value of `set`, or NULL
bool rig_unset(const struct env_result *r, const char *name);
/// Did the last build report this file as an input of this kind? A report with a hash counts most.
bool rig_input(const char *rel, enum env_kind kind);
/// PATH elements that come in front, joined with spaces, project paths shown as "$"; static memory.
const char *rig_front(const struct env_result *r, const char *name);
