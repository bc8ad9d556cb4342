#pragma once

#include "api/api_int.h"
#include "gen/engine.h"
#include "plugin/plugins.h"

// What the handlers of plugins, tools and commands share.

enum { API_ANSWER_MAX = 64 << 20 };

#define API_IMPROVEMENTS "improvements/"

/// The member of the path that names something.
struct str api__name(const struct op_call *c);

/// The current generation; NULL, answered, while the hub stops.
struct gen *api__current(struct api *api, struct op_call *c);
/// May plugins be changed? False, answered, when the feature is off or there are none (a safe start).
bool api__require_plugins(struct api *api, struct op_call *c);
bool api__plugins_on(const struct api *api); // the feature `plugins`

// ---- rows (plugin_row.c) ---------------------------------------------------------------------

/// A plugin or an improvement as rows show it.
struct api_row {
    struct plugin_row p;
    const char *scope; // of an improvement; NULL: a plugin
    bool inside;       // a plugin that is part of one of the hub's modules
};

size_t api__row_count(const struct api *api);
struct api_row api__row_at(const struct api *api, size_t i);
bool api__row_find(const struct api *api, struct str name, struct api_row *out);
/// Find the row of the request; answered with 404 and the nearest name when there is none.
bool api__row_of(struct api *api, struct op_call *c, struct api_row *out);
/// Answer that a plugin inside a module is changed there.
void api__refuse_inside(struct op_call *c, const struct api_row *r);
/// The row as an object; `whole` adds content, stats, last_error, diagnostics and outputs.
void api__row_write(const struct api *api, const struct api_row *r, bool whole, struct jw *w);
/// What a route, tool or command cost so far; NULL: it is not counted.
const struct hook_stats *api__stats_of(const struct gen_item *it);
/// The members `hooks` and `metadata` of the open object.
void api__row_write_brief(const struct api_row *r, struct jw *w);

/// The metrics afloat_plugin_...: what serves, its memory, what its contributions cost.
void api__plugin_metrics(const struct api *api, struct buf *out);

// ---- web sides (front.c) -----------------------------------------------------------------------

/// What browsers say of the version that serves: each diagnostic, the first error, why the page has to be
/// loaded again. NULL: nothing (more).
const struct gen_diag *api__front_diag(const struct api *api, const char *plugin, size_t i);
const char *api__front_error(const struct api *api, const char *plugin);
const char *api__front_needs(const struct api *api, const char *plugin);

// ---- validation (validate.c) -----------------------------------------------------------------

/// What is wrong with a plugin's code, or with the way to find out.
struct api_invalid {
    enum problem problem;
    char detail[512];
};
/// `value` is what the plugin would register; NULL: `no` says why there is nothing. Borrowed.
typedef void api_validated(void *arg, const struct json *value, const struct api_invalid *no);

struct api_validation {
    const char *name;   // of the plugin
    const char *path;   // where it is or would be
    const char *server; // file in the tree
    enum plugin_lang lang;
    const struct tree *tree;    // its files; NULL: `content` is all of it
    struct str content;         // stands in the place of the server file; `p` NULL: it does not
    const struct json *options; // NULL: none
    bool test;
};
/// Run it in a process that is locked in. Everything is copied; `done` is never called from inside.
void api__validate(struct api *api, const struct api_validation *v, api_validated *done, void *arg);

/// The language of new code: said, else that of the file, else seen from the text. False, answered,
/// when it is unknown or not that of the file.
bool api__find_lang(struct op_call *c, struct str said, const char *file, struct str content,
                    enum plugin_lang *out);

// ---- asking for a run ------------------------------------------------------------------------

/// Ask for a reload, of `name` only when it is not empty, and answer through `cb`; it gets NULL when
/// the hub stops.
void api__reload(struct api *api, struct str name, bool force, gen_report_cb *cb, void *arg);
/// Answer with `json`, copied, when what was committed is on disk: a hub that is killed after it comes back with it.
void api__answer_kept(struct api *api, struct op_call *c, struct str json);
/// plugins_undo(), answered with its report.
int api__undo(struct api *api, struct op_call *c, uint64_t to, struct err *e) MUST_CHECK;
