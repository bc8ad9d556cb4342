#pragma once

#include "base/json.h"
#include "gen/diag.h"
#include "store/tree.h"

// What a plugin is made of, found in its files: manifest first, conventions only where the manifest
// is silent; declared but missing is an error, never a fallback. Runs nothing.

enum plugin_lang { LANG_NONE, LANG_LUA, LANG_PYTHON, LANG_NODE, LANG_C, LANG__COUNT };
/// "lua" "python" "node" "c"; "" for none. Parsing also knows "py" and "mjs"; false: it is no language.
const char *plugin_lang_name(enum plugin_lang lang);
bool plugin_lang_parse(struct str name, enum plugin_lang *out);
/// Does the host of `lang` get this file of a plugin? Code of that language, and what its compiler reads.
bool plugin_lang_reads(enum plugin_lang lang, struct str file);
/// The ending of a single file: ".lua" ".py" ".mjs" ".c"; "" for none.
const char *plugin_lang_ending(enum plugin_lang lang);
/// By the ending of a file's name: .lua .py .mjs .js .ts .c; LANG_NONE for others, also for .d.ts.
enum plugin_lang plugin_lang_of(struct str file);

enum { PLUGIN_NAME_MAX = 64 };
#define MANIFEST_API "1.0" // what we speak, and what a plugin speaks that does not say

/// An unknown member of the manifest: a warning of the plugin, never a fault.
struct manifest_warning {
    const char *path;
    int line; // 0: not known
    const char *message;
};

/// All strings live in the arena that was given, or in the tree.
struct plugin_shape {
    const char *name;
    const char *version;            // NULL: not said
    const char *description;        // NULL
    const char *api;                // "1.0" when not said
    const char *origin;             // "directory" or "file"
    enum plugin_lang lang;          // of the server side
    const char *server;             // file in the tree; NULL: none
    const char *front;              // file in the tree; NULL
    const char *ui;                 // directory in the tree; NULL
    const char *prompt;             // text file in the tree that is a section of the prompt; NULL
    const char *skills;             // directory in the tree; NULL
    const struct json *options;     // JSON Schema of the entry's options; NULL: anything
    const struct json *permissions; // array of strings; NULL: none
    const struct json *metadata;    // what rows show: {api, name, version?, description?}
    struct manifest_warning *warnings; // unknown members; NULL: none
    size_t n_warnings;
};

/// Is it `^[a-z][a-z0-9_-]{0,63}$`?
bool plugin_name_valid(struct str name);
/// "1" and "1.x" load; else ERR_UNSUPPORTED with the text of the contract.
int plugin_api_check(struct str api, struct err *e) MUST_CHECK;

/// Find the parts. `path` is where the tree came from, for messages, and its last part (without the
/// ending of a single file) is the name where no manifest says one. `built`: look into `dist/` first (an
/// entry that is not hot). Returns 0, or a negative code and `fault` (strings in `a`) with its own code,
/// path and line; `out->name` is filled in even then where it can be known.
int manifest_resolve(struct plugin_shape *out, struct arena *a, const struct tree *t,
                     const char *path, bool built, struct gen_diag *fault) MUST_CHECK;

/// Do the entry's options (NULL: none) fit the manifest's schema? `*out` has the schema's defaults filled
/// in. A fault is MANIFEST_INVALID of source "config"; the caller adds path and line of the options.
int manifest_options(const struct plugin_shape *s, const struct json *given, struct arena *a,
                     const struct json **out, struct gen_diag *fault) MUST_CHECK;
