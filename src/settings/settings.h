#pragma once

#include "config/config.h"

// The hub's settings while it runs: read at the start, read again when the file is saved or on SIGHUP,
// the last good ones kept over a broken file.

struct settings;
struct watcher;

struct settings_opts {
    const struct home *home;      // borrowed
    const char *system_path;      // NULL: CONFIG_SYSTEM_PATH
    const char *listen, *profile; // flags; NULL where not given
};

/// Read all layers. Fails for a bad flag or variable, and when the system's file is broken: a typing error
/// must not allow what the file forbids. A broken file of the user's is left out.
int settings_open(struct settings **out, const struct settings_opts *o, struct err *e) MUST_CHECK;
/// Read the files again whenever one is saved, until settings_unwatch().
int settings_watch(struct settings *s, struct watcher *w, struct err *e) MUST_CHECK;
void settings_unwatch(struct settings *s); // before the watcher closes
void settings_close(struct settings *s);   // NULL is allowed; must not be watched any more

/// Read all layers, with that of the trusted project at `root` (NULL: none) between them: `text` is what its
/// file holds. For any thread. Where `d` says that a file is broken, `*out` lacks what it says and must not be used.
int settings_read_for(const struct settings *s, const char *root, const char *text,
                      struct config **out, struct config_diags *d, struct err *e) MUST_CHECK;
/// Write each to the log, as a warning.
void settings_log_diags(const struct config_diags *d);

/// Read the files again.
void settings_reload(struct settings *s);
/// The same, but only if a file has changed since it was read: a reload or a new session need not wait for the
/// watcher.
void settings_refresh(struct settings *s);

/// The settings in force. Listeners are called after each reading but the first, also when only the diagnostics
/// have changed. Valid until settings_close(); all listeners must be gone by then.
struct config_live *settings_live(struct settings *s);
