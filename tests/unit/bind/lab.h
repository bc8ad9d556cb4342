#pragma once

// A hub's Lua in small: real files in a user directory and a directory in the place of what the binary
// holds, the real watcher and engine, and modules that tell the test what happened with say().

#include "bind/modules.h"
#include "bind/modules_int.h"
#include "unit/bind/rig.h"

struct lab {
    struct modules *modules;
    const struct gen_report *report; // of the last run that was asked for
};
extern struct lab lab;

/// `files` are pairs of path and text, NULL at the end: they lie in $HOME/lua, those that begin with
/// "dev/" in the directory that stands for the shipped Lua. The first load has happened then.
void lab_open(const char *const *files);
/// The same with settings as for rig_open_with().
void lab_open_with(const char *const *flags, const char *const *files);
/// The same with what the binary holds in place of that directory.
void lab_open_builtin(const char *const *files);
void lab_close(void);

/// Save by rename / in place / remove, without telling anybody but the watcher.
void lab_save(const char *file, const char *text);
void lab_write_over(const char *file, const char *text);
void lab_remove(const char *file);

/// Ask for a reload and wait for its report: of all, of one name, forced, dry.
const struct gen_report *lab_reload(void);
const struct gen_report *lab_ask(const struct gen_request *req);
/// Save, then reload.
const struct gen_report *lab_change(const char *file, const char *text);

/// What `code` returns, as text, when it is run in the modules' state by nobody in particular.
const char *lab_eval(const char *code);

/// The first diagnostic of the last report about `unit` ("lua:x"), or NULL.
const struct gen_diag *lab_diag(const char *unit);
enum gen_state lab_state(const char *unit); // of its row in the last report; GEN_KEPT without one
bool lab_needs(const char *unit, enum gen_need kind);
size_t lab_items(void);                  // registrations of all units
uint64_t lab_revision(const char *unit); // of what serves, 0: nothing
/// Run the loop until the watcher's runs have brought that revision.
void lab_wait_revision(const char *unit, uint64_t revision);
