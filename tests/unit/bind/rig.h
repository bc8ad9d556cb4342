#pragma once

// A hub in small: the real loop, store, stream, watcher, HTTP client and engine, one Lua state with
// all faces, and units whose code is a string. Lua code tells the test what happened with say().

#include "base/buf.h"
#include "bind/bind.h"
#include "config/config.h"
#include "config/home.h"
#include "event/event.h"
#include "gen/engine.h"
#include "gen/report.h"
#include "lua/entry.h"
#include "net/http_client.h"
#include "store/store.h"
#include "trust/trust.h"
#include "unit/loop.h"
#include "unit/net/web.h"
#include "watch/watch.h"

struct rig {
    struct home home;
    struct config *config;
    struct config_live settings; // has it
    struct hub_parts hub;        // what is below, for the parts under test
    struct store *store;
    struct event_log *events;
    struct trust *trust;
    struct watcher *watcher;
    struct gen_engine *engine;
    struct bind *bind;
    struct vm *vm, *other; // units whose name begins with "other" live in the second
    struct buf said;       // a line for each say()
    struct buf stream;     // events of the engine, "type "
    bool answered;         // of the store and the stream
    unsigned runs;         // reports that came
    char message[512];     // of the last one's LOAD_FAILED
};
extern struct rig rig;
/// What the user chose, for the next rig_open(); NULL: nothing.
extern const struct json *(*rig_choice)(void *arg, struct str key);

/// `flags` are settings, "limits.hook_ms=50", NULL at the end; NULL: none. `clock` may be NULL.
void rig_open_with(const char *const *flags, const struct loop_clock *clock);
void rig_open(void);
/// Settings as rig_open_with() makes them; the caller frees them.
struct config *rig_config(const char *const *flags);
void rig_close(void); // also checks that no registration is left

/// Make `code` the new version of unit `name` and wait for the report. The first must succeed; the
/// second gives the diagnostic's message.
void rig_load(const char *name, const char *code);
const char *rig_fault(const char *name, const char *code);
/// The same without waiting for the report; see rig.runs.
void rig_ask(const char *name, const char *code);
/// Has unit `name` a diagnostic with this code whose message holds `text`?
bool rig_noted(const char *name, enum gen_code code, const char *text);
/// Take a unit away and wait until it is.
void rig_remove(const char *name);
/// Run `code` in a handler of a unit "run", where it may wait, until it says "end".
void rig_run(const char *code);

/// How many processes are ours.
int rig_children(void);

/// Run the loop until Lua code has said `text` as a line.
void rig_wait(const char *text);
bool rig_said(const char *text);
void rig_hush(void); // forget what was said
/// Turns of the loop without waiting, until nothing is due at once.
void rig_settle(void);

/// A path in the test's directory, in a ring of static buffers.
const char *rig_path(const char *name);
void rig_write(const char *name, const char *text); // a file there
/// The text of format, in a static buffer.
const char *rig_code(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
