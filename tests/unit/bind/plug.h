#pragma once

// Plugins in small: a source whose plugins are files in memory, loaded by the real runner into the real
// engine. What a plugin logs is what it says to the test.

#include "bind/bind.h"
#include "gen/route.h"
#include "hook/args.h"
#include "hook/run.h"
#include "plugin/runner.h"
#include "store/tree.h"
#include "unit/bind/rig.h"

/// As rig_open_with(), and a source of plugins.
void plug_open(const char *const *flags);
void plug_close(void);

/// What the next plugins are: root of their repository, and permissions as a JSON array. NULL: none.
void plug_set(const char *project, const char *permissions);

/// Load a plugin of these files (path, text, ..., NULL); the first is its server file. Waits for the
/// report. plug_load() is a single file that must load, plug_fault() gives the diagnostic of one that
/// must not.
void plug_files(const char *name, const char *const *files);
void plug_load(const char *name, const char *code);
const struct gen_diag *plug_fault(const char *name, const char *code);
const struct gen_diag *plug_diag(const char *name); // of the last report; NULL: none
void plug_try(const char *name, const char *code, bool dry_run);
void plug_remove(const char *name);
/// Is the name served?
struct gen_unit *plug_unit(const char *name);
/// Every item of it as "kind name about\n".
const char *plug_items(const char *name);
/// How often has it logged a line like this?
unsigned plug_said(const char *name, const char *text);

/// Call a tool, command or prompt section and wait: the result as JSON, or "!" and the message.
const char *plug_call(enum gen_kind kind, const char *name, const char *input);
extern int plug_status;           // of the last call
extern struct hook_ctx *plug_ctx; // of calls; NULL: none
/// Request a route and wait: "200 content-type=... body", or "!" and the message.
const char *plug_route(const char *name, const char *method, const char *path, const char *query,
                       const char *body);

/// Raise a point with these JSON texts as values (NULL: none) and wait; the last value as JSON.
const char *plug_raise(enum hook_point_id point, const char *first, const char *second);
extern struct hook_run plug_run; // of the last dispatch
