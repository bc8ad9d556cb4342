#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "gen/diag.h"

// Which plugins exist: the lines of `[[plugins]]`, those added by command, and the files in the layers' directories,
// made into one list of entries, which all later code treats alike.
//
//     roots ──scan──> places ──(read, resolve: the name is known)──> entries_make ──> entries
//
// Layers, later wins by name: shipped, user, user-profile, then of each project repo, repo-profile; a
// line of the configuration has the place of its file (config) and comes first in load order.

struct config;

enum plugin_layer {
    LAYER_SHIPPED,
    LAYER_USER,
    LAYER_USER_PROFILE,
    LAYER_CONFIG, // [[plugins]] of the user or the system, `plugin add`
    LAYER_REPO,
    LAYER_REPO_PROFILE,
    LAYER__COUNT
};
/// As rows show it.
const char *plugin_layer_name(enum plugin_layer layer);

enum plugin_hot { HOT_NO, HOT_MANUAL, HOT_YES };

/// A directory in which plugins are dropped.
struct plugin_root {
    char *dir; // need not exist
    enum plugin_layer layer;
    char *project; // root of the repository; NULL for the user's layers
    char *slug;    // of the project; NULL
};

/// One place where a plugin may be. It owns its strings.
struct plugin_place {
    char *path; // absolute, clean; "" for a shipped one that cannot be: nothing is there
    enum plugin_layer layer;
    char *project, *slug; // NULL for the user's layers
    const char *source;   // "discovered" "config" "choice" "lua" "shipped"
    int order;            // within its layer: configuration lines by number, files by path
    // from the configuration; defaults for what was discovered
    enum plugin_hot hot;
    bool enabled, required;
    struct json *options; // NULL: {}; in `arena` of the list
    struct json *prefer;  // array of strings, NULL: none
    char *said_path;      // file that says so, NULL
    int said_line;
    char *called; // the name that code gives it, whatever its files say; NULL: theirs
    // filled in by who read the files, before entries_make()
    bool untrusted; // a project's, and no version of it may run: it takes no name from another
    // of the manifest, else of the file; NULL: nothing is there. That of a shipped plugin which a line names is set from
    // the start
    char *name;
};
struct plugin_places {
    vec(struct plugin_place) list;
    struct arena arena; // of options
};
/// Free a place's texts; the list with all its places. A zeroed list is an empty one.
void place_fini(struct plugin_place *p);
void places_fini(struct plugin_places *p);

/// Add the plugins directly in `root`, in path order: every directory, and every file with the ending of a language.
/// Hidden names and editors' temporary files are ignored. A missing directory is an empty one. Blocks.
int places_scan(struct plugin_places *p, const struct plugin_root *root, struct err *e) MUST_CHECK;
/// Add the lines of `[[plugins]]` (relative to their file; `name` finds a shipped one in
/// `shipped_dir`, which may be NULL), and the entries of `plugin add` in `choices` ("plugin_entries": a
/// list of {path, hot?, options?}).
void places_configured(struct plugin_places *p, const struct config *c, const struct json *choices,
                       const char *shipped_dir);

/// Add the lines that a project's file says, of settings that hold those of all layers.
void places_of_project(struct plugin_places *p, const struct config *c, const char *slug,
                       const char *shipped_dir);

/// One plugin of the set to be.
struct plugin_entry {
    const struct plugin_place *place;
    const char *name;                         // of the plugin
    char *unit;                               // its name in the generation: `name`, or `name@slug`
    bool enabled;                             // place and choices agree; `required` ones always are
    vec(const struct plugin_place *) shadows; // earlier layers that it replaces
    // in `arena`; ENTRY_MISSING, NAME_DUPLICATE, NAME_INVALID: listed, not loaded
    struct gen_diag *fault;
};
/// Has another place of its layer the name?
static inline bool entry_is_duplicate(const struct plugin_entry *e)
{
    return e->fault != NULL && e->fault->code == DIAG_NAME_DUPLICATE;
}
struct plugin_entries {
    vec(struct plugin_entry) list; // in load order
    struct arena arena;
};

/// Make the entries of the places. If several places of a layer have one name, the first is the plugin and the others are
/// NAME_DUPLICATE, which names both; a later layer replaces an earlier one. Projects do not see each other: the winner
/// of every view (the user's own, and each project's over the user's) is an entry. A place with nothing in it still
/// keeps its name from lower layers. The first open project with a trusted plugin of a name has the plain name, else the
/// user, else an untrusted project; the other winners are `name@slug` (`name@user` for the user's). `choices` may have
/// {"plugins.NAME.enabled": bool} for the unit or else for the plugin: it wins over the configuration, but not over
/// `required`.
void entries_make(struct plugin_entries *out, const struct plugin_places *p,
                  const struct json *choices);
void entries_fini(struct plugin_entries *e);
