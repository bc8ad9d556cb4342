#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "config/home.h"

// The effective configuration: every setting with the layer it came from. Built once by
// config_load() and never changed; a changed file makes a new one. Safe to read from any thread.
// keys.def is the table of all settings.

/// The layers, lowest first: a value of a later one replaces that of an earlier one.
enum config_origin {
    CONFIG_DEFAULT,     // built in
    CONFIG_SYSTEM,      // /etc/afloat/config.toml
    CONFIG_USER,        // $AFLOAT_HOME/config.toml
    CONFIG_PROJECT,     // .afloat/config.toml of a trusted project
    CONFIG_ENVIRONMENT, // AFLOAT_LISTEN and its like
    CONFIG_FLAG,        // the command line
    CONFIG_POLICY,      // [policy] of the system's file
};

#define CONFIG_SYSTEM_PATH  "/etc/afloat/config.toml"
#define CONFIG_PROJECT_FILE ".afloat/config.toml"

/// Where to read from. Everything is borrowed for the call.
struct config_sources {
    const struct home *home;  // its config.toml is the user's; NULL: no user's file
    const char *system_path;  // NULL: CONFIG_SYSTEM_PATH
    const char *project_dir;  // the trusted project's directory, or NULL
    const char *project_text; // what its file holds, as it was trusted; NULL: read the file
    const char *const *env;   // "NAME=value", NULL at the end; NULL: no environment
    const char *const *flags; // "key=value", NULL at the end; NULL: no flags
    bool hub;                 // the hub loads: AFLOAT_PROVIDER and AFLOAT_MODEL, which travel
                              // with the client, do not count
};

// ---- diagnostics --------------------------------------------------------------------------

enum config_severity { CONFIG_WARNING, CONFIG_ERROR };

struct config_diag {
    enum config_severity severity;
    char *path;         // of the file
    uint32_t line, col; // from 1; 0 when the whole file is meant
    char *message;
    char *hint;   // what to do about it, or NULL
    bool refuses; // it is about what sessions may do: none begins until it is fixed
};

/// Every problem found by one config_load(). The caller's storage.
struct config_diags {
    struct config_diag *p;
    size_t n, cap;
    bool broken; // a file has an error and was left out as a whole
};

/// Make `d` an empty list; end it with config_diags_fini().
void config_diags_init(struct config_diags *d);
void config_diags_fini(struct config_diags *d);

struct config_place {
    const char *path;
    uint32_t line, col;
};

/// Add a diagnostic; control characters in its text are replaced. `hint` may be NULL. An error
/// marks `d` as broken. Past a limit one last entry says that there are more.
void config_diags_add(struct config_diags *d, enum config_severity severity, struct config_place at,
                      const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);
/// Whether further diagnostics would not be listed.
bool config_diags_full(const struct config_diags *d);
/// Add copies of those of `from` that are about the file `path`.
void config_diags_add_from(struct config_diags *d, const struct config_diags *from,
                           const char *path);
/// The first diagnostic that stops sessions from beginning; NULL when there is none.
const struct config_diag *config_diags_refusal(const struct config_diags *d);
/// Let no session begin until the problem is fixed; its hint says so.
void config_diag_refuse(struct config_diag *d);
/// There are no earlier settings to use in place of the files that have errors: let no session begin until they are
/// fixed.
void config_diags_refuse(struct config_diags *d);
/// Write [{severity, path, line?, col?, message, hint?}]; NULL is an empty list.
void config_diags_write(const struct config_diags *d, struct jw *w);

// ---- loading ------------------------------------------------------------------------------

struct config;

/// Read all layers and make `*out`, which the caller owns and ends with config_free().
///
/// A missing file is an empty layer. A file that cannot be read, has a syntax error, a value of the
/// wrong type or out of range is broken: nothing of it counts, `d->broken` is set, and `*out` is
/// made of the other layers. A caller with an earlier configuration keeps that one and shows `d`; one
/// without starts with `*out`. Unknown keys, and keys a project may not set, are warnings.
///
/// Fails only for the flags and the environment of this process: a bad flag (ERR_USAGE) or a bad
/// variable (ERR_INVALID); then `*out` is NULL. `d` must be empty; blocks on file reads.
int config_load(struct config **out, const struct config_sources *src, struct config_diags *d,
                struct err *e) MUST_CHECK;
void config_free(struct config *c); // NULL is fine

// ---- the settings in force ------------------------------------------------------------------

/// New settings are in force; the old ones are still valid during the call.
typedef void config_changed_fn(void *arg);

struct config_listener {
    config_changed_fn *changed;
    void *arg;
};

/// The settings of the hub while it runs. Parts borrow it for as long as they live, read `now` whenever they need a
/// setting, and listen where they must act on a change. Loop thread only.
struct config_live {
    const struct config *now;         // never NULL
    const struct config_diags *diags; // of the last reading; NULL: nothing was wrong
    vec(struct config_listener) listeners;
};

/// Call `changed` after each change, after the listeners added before.
void config_listen(struct config_live *c, config_changed_fn *changed, void *arg);
/// Stop that. Every listener must be removed before `c` is freed.
void config_unlisten(struct config_live *c, config_changed_fn *changed, void *arg);
/// Put `now` into force, borrowed until the next call, and call the listeners.
void config_put(struct config_live *c, const struct config *now, const struct config_diags *diags);

// ---- reading ------------------------------------------------------------------------------

// `key` is a dotted name out of keys.def ("watch.debounce_ms"). A name that is not there, or the
// wrong getter for its type, is a bug and asserts. Results are borrowed from `c`.

/// The broken file of the system or the user, whose settings `c` lacks; NULL when there is none.
const char *config_left_out(const struct config *c);

/// A text; never NULL.
const char *config_str(const struct config *c, const char *key);
/// A number.
int64_t config_int(const struct config *c, const char *key);
/// A switch.
bool config_bool(const struct config *c, const char *key);
/// A list, NULL at its end. `session.plugins = "*"` is NULL; an empty list is not.
const char *const *config_strings(const struct config *c, const char *key);

/// One effective setting.
struct config_entry {
    const char *key;  // "listen", "providers.work.kind", "prices.\"gpt-5.1\".input", "plugins.0"
    const char *name; // the user's name for the `*` of keys.def ("work", "gpt-5.1"), else NULL
    const struct json *value; // strings in it are NUL-terminated
    enum config_origin origin;
    const char *path; // the file, or the name of the variable; NULL for default and flag
    uint32_t line;    // in the file, 0 when there is none
};

/// The setting of that name; NULL when there is none (names given by users: "plugins.3").
const struct config_entry *config_find(const struct config *c, const char *key);
/// The same for a pattern of keys.def and a user's name: ("providers.*.kind", "work").
const struct config_entry *config_find_named(const struct config *c, const char *pattern,
                                             const char *name);
/// The names used in a table of named tables, sorted: `size_t at = 0; while ((name =
/// config_next_name(c, "providers", &at)) != NULL) ...`
const char *config_next_name(const struct config *c, const char *table, size_t *at);
/// All settings, sorted by key; NULL after the last. `size_t at = 0; while ((e = config_next(c,
/// &at)) != NULL) ...`
const struct config_entry *config_next(const struct config *c, size_t *at);

/// "default", "system", ... "policy".
const char *config_origin_name(enum config_origin origin);
/// Whether [policy] decides a setting of keys.def: no command and no choice may override it.
bool config_is_policy(const struct config *c, const char *key);
/// The value allowed for an ENUM of keys.def: `asked`, or the value of [policy] where that is narrower.
const char *config_allowed(const struct config *c, const char *key, const char *asked);

/// All settings as one object {key: value}, made in `a`; keys are borrowed from `c`. Members whose name looks like a
/// secret's, passwords in URLs and such parameters of URLs are "[redacted]".
struct json *config_values(const struct config *c, struct arena *a);

/// Write {"values": [{key, value, origin, path?, line?}], "diagnostics": [{severity, path, line?,
/// col?, message, hint?}]}, values as config_values() gives them. `d` may be NULL.
void config_write_json(const struct config *c, const struct config_diags *d, struct jw *w);

/// True when `s` is a value of `listen`: "", "auto", or ADDR:PORT with an IPv4 address, an IPv6
/// address in brackets or "localhost".
bool config_listen_valid(struct str s);
