#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "front/front.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "plugin/inputs.h"
#include "plugin/past.h"
#include "plugin/plugins.h"
#include "trust/stays.h"
#include "trust/trust.h"

// What the files of the plugins' source share.
//
//     content   one hash: files, shape; shared by reference count
//     found     one path on disk: what the last look found there
//     plugin    one unit name: what was decided for it, and what serves
//     loaded    one content loaded by a runner: what a unit of a generation stands on

/// The files of one version and what they are. Never changes; made on a worker, counted on the loop.
struct content {
    unsigned refs;
    struct tree tree;
    struct arena arena;
    struct plugin_shape shape;
    char inputs[SHA256_HEX]; // over the files that loading depends on; see content.c
    bool built;              // resolved with dist/ first
    bool sound;              // it could be resolved; else `fault` says why not
    struct gen_diag fault;   // strings in `arena`

    char front_hash[SHA256_HEX]; // of its web side; "" without one
    struct front_output *front;  // its web side, compiled; NULL: served as it is, or `front_fault`
    struct gen_diag front_fault; // a copy, why it was not compiled; message NULL: nothing is wrong
    bool front_missing;          // because there is no compiler
    bool compiling;              // a build of it is under way
};

/// What is at a path.
struct found {
    char *path;
    uint64_t stamp;          // fingerprint of names, sizes, times; 0: nothing is there
    bool built;              // how it is read: dist/ first
    bool named;              // of a walk that finds those that no place names
    struct content *content; // NULL: nothing there, or it could not be read
    struct gen_diag fault;   // a copy, of the reading; message NULL: none
    int64_t seen_at;         // ms since 1970
};

/// A version that a generation kept, as it is written down.
struct past_unit {
    const char *name, *path, *layer, *source, *project, *hash, *note;
    uint64_t revision, mark;
    const struct json *options, *prefer;
};

struct loaded {
    struct plugin *plugin;
    struct content *content;
    struct plugin_code code;
    struct plugin_version *run; // NULL: it has no server side
    struct arena arena;         // options, strings
    struct gen_unit *unit;
    uint64_t mark; // of everything besides the content that loading looked at: options, names
    struct plugin_inputs inputs;
    bool ready; // of a trial: its runner has done what takes time
};

/// Where a plugin's version comes from.
struct plugin_origin {
    const char *name, *path, *layer, *source; // never NULL
    const char *project;                      // NULL: the user's
    const char *said_path; // the file that gives the options, with the line; NULL: none does
    int said_line;
    const struct json *options, *prefer; // NULL: none
};

/// The commits of a plugin that writes its own files; see brake.c.
enum { BRAKE_COMMITS = 10 };
struct brake {
    uint64_t at[BRAKE_COMMITS]; // ms, the oldest is overwritten
    unsigned n;
    uint64_t writes; // of the runner, at the last commit
    uint64_t until;  // ms: nothing is loaded before; 0: it is not braked
};

/// What the next stage does with a plugin.
enum plugin_act { ACT_NOTHING, ACT_LOAD, ACT_REMOVE, ACT_SAY };

struct plugin {
    struct plugins *owner;
    char *unit;
    const struct plugin_entry *entry; // NULL: it has none any more
    struct found *found;              // of its entry's place; NULL without one
    struct plugin_origin at;          // that of its last entry, in `arena`: it outlives the entry
    struct arena arena;
    int order;
    struct loaded *serving;
    struct content *want;    // to be served; NULL: nothing. Borrowed until the run ends
    struct content *back;    // to be served when `want` fails to load and nothing serves; the same
    enum gen_state state;    // how what is there stands, beside what serves: LOADED, FAILED, ...
    struct gen_diag verdict; // a copy, why; message NULL: nothing is wrong
    enum gen_state said_state; // the same, as the last run said it
    struct gen_diag said;
    enum plugin_act act;
    enum gen_reason why;      // of a removal
    uint64_t mark;            // of what is wanted
    struct loaded *staged;    // of the run under way
    struct loaded *trials[2]; // not staged yet: of `want`, and of what serves if that fails
    char failed[SHA256_HEX];  // content that failed to load, with `failed_mark`
    uint64_t failed_mark;
    struct gen_diag failure;     // a copy, what it failed with
    bool needs_restart;          // changed on disk, fixed until the hub restarts
    struct plugin_inputs inputs; // what the last version that was tried read while it loaded
    bool stale;                  // some of that has changed since
    struct brake brake;
    bool looked; // what is on disk for it was looked at for this run
    bool owed;   // a run of the watcher left it out because it was not ready
};

/// An open project.
struct project {
    struct trust_place place;
    char *slug;
    bool opening; // its plugins are not loaded yet
};

/// A version that an undo brought back.
struct hold {
    char *unit;
    char *over;          // hash of what was on disk then, "" for nothing: another one ends the hold
    bool out;            // nothing serves in its place; else `of.hash` does
    bool over_off;       // a line of the settings had switched the plugin off then
    struct past_unit of; // strings in `arena`
    struct str bytes;    // of a text, in `arena`; NULL: it could not be read
    struct arena arena;
};

/// A generation that was, as it is written down.
struct past {
    struct arena arena;
    char *text;              // JSON
    const struct json *json; // the same, into `text`
};

/// What serves as a unit, as it was written down last.
struct past__now {
    char hash[SHA256_HEX];
    uint64_t mark;
    char *text; // JSON
};

/// A source whose units are texts.
struct past__joined {
    const struct past_member *m;
    const char *dir;
    void *arg;
};

struct past__waiter {
    loop_fn *cb;
    void *arg;
};

/// A file that the watcher called whole, with what it read.
struct dirty_file {
    char *path;
    char *bytes; // NULL: deleted, or too large to be kept
    size_t n;
};

struct plugins {
    struct plugins_opts opts;
    struct gen_source *source;
    struct timer saving; // when what was kept is written down; see past.c
    struct timer braked; // when something braked may load again
    struct lane *lane;   // looks at what is on disk
    struct front *front; // compiles web sides; NULL once stopped
    size_t compiling;    // builds under way, of the run that is being prepared
    struct lane *keeper; // writes and reads the kept versions: a save does not wait for a sync
    char *versions;      // state/versions
    bool on, stopped;
    uint64_t config_mark; // of the settings that are about plugins

    // what is on disk
    vec(struct plugin_root) roots;
    vec(struct watch *) watches;
    vec(char *) watched;          // a path for each watch
    struct map found;             // struct found by path
    vec(struct dirty_file) dirty; // of the watcher's batches, not looked at yet
    bool all_dirty;
    bool list_roots;              // the next look lists the roots
    bool relisted;                // the places are others: entries have to be made of them
    bool reordered;               // the load order is another, and the next stage has to say so
    bool rewatch;                 // what has to be watched may be other
    vec(struct project) projects; // those in which a session, run or shell works
    struct stays stays;
    struct plugin_places installed; // by code; `said_path` is the owner
    vec(char *) unloaded;           // units that code took out
    struct plugin_places places;
    struct plugin_entries entries;

    // what serves
    vec(struct plugin *) plugins; // in load order
    struct map units;             // the same by the unit's name
    uint64_t number;              // of the last generation kept

    // the run that is being prepared
    bool preparing, force, watch_run;
    bool wait_all;         // the run waits for what takes time
    bool awaiting;         // everything is decided, and trials are waited for
    bool starting;         // it is the hub's first run
    struct timer patience; // for how long they are
    vec(char *) names;
    vec(struct plugin *) run;      // those that take part, in load order
    bool asked_kept;               // kept versions were asked for
    vec(struct content *) fetched; // those that were there
    vec(char *) warned;            // paths that stand as NAME_DUPLICATE

    // what was kept
    bool remembered;             // state/hub.json was read
    struct past__write *writing; // of state/hub.json; NULL: none is under way
    bool save_again;             // it changed since
    vec(struct past__waiter) save_waiting;
    struct pruning *pruning; // of the kept versions; NULL: none is under way
    struct timer prune_timer;
    vec(struct past *) past; // newest first
    uint64_t last_id;        // of a record
    bool fresh;              // nothing was kept when the hub came up
    vec(struct hold *) holds;
    struct map now;            // unit to a struct past__now
    const struct json *chosen; // what of the choices is in the records, in `chosen_arena`
    struct arena chosen_arena;
    struct map good;  // path to what loaded last
    uint64_t undo_to; // the record that the run under way takes back; 0: none
    vec(struct past__joined) members;
    vec(struct past__waiter) waiting; // for what was kept
};

// ---- content.c --------------------------------------------------------------------------------

/// Read what is at `path`. Blocks. What the watcher read is taken from `dirty`, not from the disk; `*older` is set
/// when that is not what is on the disk now. NULL with `fault` (a copy) when it cannot be read.
struct content *content_read(const char *path, bool built, const struct dirty_file *dirty, size_t n,
                             bool *older, struct gen_diag *fault);
/// Read a kept version back. Blocks. NULL when it is not there.
struct content *content_fetch(const char *versions, const char *hash, const char *path, bool built);
struct content *content_ref(struct content *c);
void content_unref(struct content *c); // NULL is allowed
/// Do two contents load alike? Files that loading does not depend on may differ.
bool content_same(const struct content *a, const struct content *b);
/// A number for the names, sizes and times at `path`; 0 when there is nothing. Blocks.
uint64_t content_stamp(const char *path);

// ---- look.c: what is on disk ----------------------------------------------------------------

/// Look at the roots and at whatever is dirty; ends with plugins__decide().
void look__begin(struct plugins *ps);
struct found *look__found(const struct plugins *ps, const char *path); // NULL when not known
/// The hash of what is on disk for a plugin, "" for nothing; `p` may be NULL.
const char *look__hash(const struct plugin *p);
/// Is `path` the directory `dir` or something below it? NULL is not.
bool look__is_beneath(const char *path, const char *dir);
/// The settings with those that a project brings; NULL: it brings none.
const struct config *look__project_config(const struct plugins *ps, const struct project *pr);
void look__free(struct plugins *ps);

// ---- look_watch.c: where to look --------------------------------------------------------------

/// A root with copies of the texts; `project` and `slug` may be NULL. Free what `n` of them own.
struct plugin_root look__root(const char *dir, enum plugin_layer layer, const char *project,
                              const char *slug);
void look__roots_free(struct plugin_root *roots, size_t n);
/// Open the roots of the user and of every project, and watch them and all configured places.
void look__roots(struct plugins *ps);
void look__watch(struct plugins *ps);
void look__unwatch(struct plugins *ps); // at the end: roots and watches go

// ---- fetch.c: kept versions -------------------------------------------------------------------

/// A kept version that is wanted: by hash, as what was at `path`, read with dist/ first if `built`.
struct kept_want {
    const char *hash, *path;
    bool built;
};
/// Read kept versions into `fetched`; ends with plugins__decide().
void fetch__begin(struct plugins *ps, const struct kept_want *list, size_t n);

// ---- compile.c: web sides ------------------------------------------------------------------------

/// Compile what is to be loaded and is not compiled yet. False: there is nothing to do; else it ends with
/// plugins__compiled().
bool compile__begin(struct plugins *ps);
void plugins__compiled(struct plugins *ps);
/// The file of the tree that a page begins with; NULL: it has no web side, or none that can be served.
const char *compile__entry(const struct content *c);

// ---- decide.c: what is to serve ---------------------------------------------------------------

/// Make entries of the places and decide for each unit what is to be done. False: kept versions
/// have to be fetched first, fetch__begin() is under way.
bool decide__all(struct plugins *ps);
/// Did a command switch it off? An entry that is required is on all the same.
bool plugin__is_chosen_off(const struct plugin *p);
/// Everything that loading looks at besides the files, as one number.
uint64_t decide__mark(const struct plugin_place *p, const char *unit);

// ---- trials.c: what takes time ----------------------------------------------------------------

/// Begin what the loads of this run need before they are staged. False: they are waited for, and
/// plugins__prepared() follows. A run that does not wait leaves those that are not ready to a later one.
bool trials__begin(struct plugins *ps);
/// Take the trial of `c` over; NULL: there is none.
struct loaded *trials__take(struct plugin *p, const struct content *c);
void trials__drop(struct plugin *p);

// ---- plugins_stage.c: loading -----------------------------------------------------------------

void stage__plugins(void *plugins, struct gen_stage *s);
void stage__plugins_commit(void *plugins);
void stage__plugins_abort(void *plugins);
/// A version of `c` for `p`, not loaded; NULL and `fault` (a copy) when its options are wrong.
struct loaded *loaded__new(struct plugin *p, struct content *c, struct gen_diag *fault);
void loaded__free(struct loaded *v);
/// What is to serve when `want` fails to load; NULL: what serves now, if anything does.
struct content *plugin__back(const struct plugin *p);
/// The origin of what serves or is to serve: the record of a held version, else the last entry.
/// Borrowed until the loop turns.
struct plugin_origin plugin__origin(const struct plugin *p);
/// Is what serves dead? Then it is loaded again, and when that fails nothing serves.
bool plugin__is_dead(const struct plugin *p);

// ---- brake.c: loops of a plugin with itself ---------------------------------------------------

/// A version was committed: count it, and note with its unit when it goes too fast.
void brake__committed(struct plugin *p);
/// Has `p` to wait with loading? Then the watcher's run that it waits for is asked for later.
bool brake__holds(struct plugin *p);

// ---- past.c: what was kept --------------------------------------------------------------------

void past__load(struct plugins *ps); // ends with plugins__remembered()
void plugins__remembered(struct plugins *ps);
void past__free(struct plugins *ps);
gen_commit_cb past__committed;
struct hold *past__hold(const struct plugins *ps, const char *unit);
/// Hold `unit` at the version of the record `rec`, or out when it is NULL, as long as `over` is the hash
/// of what is on disk.
struct hold *past__hold_add(struct plugins *ps, struct str unit, const struct json *rec,
                            const char *over);
void past__release(struct plugins *ps, const char *unit); // end a hold
uint64_t past__number(const struct past *r, const char *key);
bool past__is_change(const struct past *r);
/// The member whose unit it is; NULL: it is a plugin.
const struct past__joined *past__member(const struct plugins *ps, const char *unit);
void past__save(struct plugins *ps);

// ---- past_keep.c: versions and the last good ---------------------------------------------------

const char *past__good(const struct plugins *ps, const char *path);
void past__good_write(struct plugins *ps, struct jw *w);
void past__good_read(struct plugins *ps, const struct json *good);
/// `v` was committed: it is the last good one of its path, and kept.
void past__keep(struct plugins *ps, const struct loaded *v);
/// A record went: versions that nothing names any more go too, after PRUNE_MS at most.
void past__prune_soon(struct plugins *ps);
void past__keep_free(struct plugins *ps);

/// Read texts out of the kept versions; `done` on the loop, after which it is freed.
struct past__fetch;
typedef void past__fetched(struct plugins *ps, struct past__fetch *f, void *arg);
struct past__fetch *past__fetch_new(struct plugins *ps);
void past__fetch_add(struct past__fetch *f, struct str hash);
void past__fetch_run(struct past__fetch *f, past__fetched *done, void *arg);
bool past__fetch_get(const struct past__fetch *f, struct str hash, struct str *bytes);
/// Those that members may need at start; ends with plugins__remembered().
void past__fetch_texts(struct plugins *ps);

// ---- past_choices.c: what was chosen by command ------------------------------------------------

/// The records know these choices.
void past__take_choices(struct plugins *ps, const struct json *all);
/// Write the former values of those that differ from what the records know (none with `base`), which
/// know them from then on.
void past__note_choices(struct plugins *ps, struct jw *w, bool base);
/// Choose what was chosen; JSON null: nothing was.
void past__choose_again(struct plugins *ps, struct str key, const struct json *was);

// ---- plugins.c --------------------------------------------------------------------------------

/// What the run needs is on disk and in memory: decide, and begin what comes before staging.
void plugins__decide(struct plugins *ps);
/// All that the run needs is there: tell the engine.
void plugins__prepared(struct plugins *ps);
/// Ask for a run, unless the hub stops.
void plugins__ask(struct plugins *ps, const char *trigger);
struct project *plugins__project(const struct plugins *ps, const char *root); // NULL when not open
struct plugin *plugins__plug(const struct plugins *ps, const char *unit);     // NULL when not known
void plugin__free(struct plugin *p);
/// The run is over, or there was nothing to do: let go of what was read for it.
void plugins__end_run(struct plugins *ps);
