#pragma once

#include "config/config.h"

// The hub's settings while it runs: read at the start, read again when the file is saved or on SIGHUP,
// the last good ones kept over a broken file.

struct settings;
struct watcher;

struct settings_opts {
    const struct home *home;      // borrowed
    const char *system_path;      // NULL: CONFIG_SYSTEM_PATH
    const char *listen, *profile; // flags; NULL where nothing was said
};

/// Read all layers. Fails for a bad flag or variable, and when the system's file is broken: what it
/// forbids must not be allowed by a slip of the pen. A broken file of the user's is left out.
int settings_open(struct settings **out, const struct settings_opts *o, struct err *e) MUST_CHECK;
/// From now on saved files are read by themselves; until settings_unwatch().
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
/// The same if a file is another one than the one that was read: who asks for a reload, or begins a session, does
/// not wait for the watcher.
void settings_refresh(struct settings *s);

/// What is in force, and where to listen: told after each reading but the first, also when only what is wrong with
/// the files is other than before. Lives until settings_close(), when nobody may listen any more.
struct config_live *settings_live(struct settings *s);
