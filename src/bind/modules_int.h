#pragma once

// What the files of the module system share.

#include <lauxlib.h>
#include <lua.h>

#include "base/map.h"
#include "base/sha256.h"
#include "base/vec.h"
#include "bind/modules.h"
#include "bind/state.h"
#include "lua/entry.h"

struct installs;
struct space;
struct module;

// ---- modules_files.c: the files of the roots ------------------------------------------------

enum { FILES_BYTES_MAX = VM_CHUNK_MAX, FILES_MAX = 4096, FILES_DEPTH = 16 };

/// The text of one file as it was hashed. Shared by the roots and the versions that run it.
struct files__text {
    unsigned refs;
    char *path;        // for messages
    const char *layer; // "user", "shipped"
    struct str bytes;
    char *owned;         // the bytes, unless they live in the binary
    char *fault;         // why it could not be read; NULL: it was
    int64_t ctime_ns;    // of the file when it was read; 0 for the binary's own
    char id[SHA256_HEX]; // see files__text_id(); "": not asked for yet
    uint8_t hash[SHA256_SIZE];
};
struct files__text *files__text_ref(struct files__text *t);
void files__text_unref(struct files__text *t); // NULL is allowed

/// Two texts that make the same version: the same bytes at the same path.
bool files__text_same(const struct files__text *a, const struct files__text *b);

/// A text of a file of that root, with a copy of `bytes`.
struct files__text *files__text_copy(const char *path, int root, struct str bytes);
bool files__is_users(const struct files__text *t);
/// The hash under which a version of this text is kept.
const char *files__text_id(struct files__text *t);

enum { ROOT_USER, ROOT_SHIPPED, ROOT__COUNT };
struct files__root {
    char *dir;         // NULL: none, or the binary's own files
    struct map texts;  // path below the root to its text
    struct map stamps; // the same to a struct files__stamp, of files that a scan read
    struct map fresh;  // what the watcher told during the scan under way
    bool full;         // the last scan left files out: there are more than FILES_MAX
};

struct files {
    struct files__root roots[ROOT__COUNT];
    struct map covers; // module to a struct files__cover
    bool scanning;
};

void files__init(struct files *f, const char *user_dir, const char *dev_dir);
void files__fini(struct files *f);

/// The text that `require(name)` means now, or NULL. Borrowed.
struct files__text *files__find(const struct files *f, struct str name);
/// The text of the user's file of that name, even if a cover stands for it.
struct files__text *files__users(const struct files *f, struct str name);
/// Use another text (`path` NULL: none) instead of the user's file until that file changes.
void files__cover(struct files *f, struct str name, const char *path, struct str bytes);
void files__uncover(struct files *f, struct str name);
bool files__is_covered(const struct files *f, struct str name);
bool files__next_cover(const struct files *f, size_t *at,
                       struct str *name); // also those that ended
/// The name of the module in the file at `rel`; NULL: the file is not a module. Caller frees.
char *files__module_of(struct str rel);
bool files__is_name(struct str name);

/// Names of the modules that a pattern of the load order stands for ("handlers.*"), sorted; each is
/// freed by the caller, and the vector.
typedef vec(char *) files__names;
void files__expand(const struct files *f, struct str pattern, files__names *out);

struct watch_change;
/// Apply a change that the watcher saw. True when a file was added or removed. The watcher's own kind does not tell: a scan
/// may have noticed the removal of a file that the watcher only saw change.
bool files__apply(struct files *f, int root, const struct watch_change *c);

/// Scan all roots on a thread; `done` is called on the loop thread when `f` is up to date. One scan at a time; `f` must
/// outlive it.
struct lane;
typedef void files__scan_done(void *arg);
void files__scan(struct files *f, struct lane *lane, files__scan_done *done, void *arg);

// ---- modules.c: names and versions ----------------------------------------------------------

typedef vec(struct module *) module_list;

enum version_outcome { VERSION_LOADING, VERSION_LOADED, VERSION_FAILED };

/// One text, run once. It is the `data` of its unit and goes with it.
struct version {
    struct module *module;
    struct files__text *text;
    struct gen_unit *unit;
    struct bind_owner *owner;
    struct version *host; // not NULL: required late, by code of this one, and registering for it
    size_t n_guests;      // versions that have this one as host
    vm_ref value;         // what the file returned
    module_list deps;     // what it required, at load or later
    enum version_outcome outcome;
    struct gen_diag
        fault; // of the load or of _before_reload; its message is NULL when there is none
    struct module *blame;      // a module whose failure it was told of
    size_t grew;               // bytes that its load added to the state, in a rebuild
    bool in_cycle;             // it was part of a circle of requires
    bool thrown;               // judged: not to be taken
    bool spoilt;               // judged: its whole group is not
    bool unwanted;             // judged: no module requires it any more
    struct version *parent;    // of its group: union-find
    struct installs *installs; // what its file said with plugins{...}; NULL: nothing
};

/// What a run does with a module: nothing, look at it, run it again.
enum module_mark { MARK_NONE, MARK_TOUCHED, MARK_STAGE };

/// A name that was required or that the load order holds. Lives as long as its space.
struct module {
    struct space *space;
    struct module *next; // of the space
    struct module *twin; // of the hub's own space; itself there
    char *name;          // "lib.x"
    char *unit_name;     // "lua:lib.x"
    bool wanted;         // part of the load order
    bool named;          // a request named it
    bool attempted;      // was run, with whatever result
    bool kept_back;      // its new text is sound, but was discarded with its group
    struct version *live;
    struct version *staged;
    module_list wants; // what the last attempt that failed required
    module_list late;  // what its code required while it ran
    struct gen_diag
        refusal; // of the text that is not taken; its message is NULL when there is none
    struct files__text *seen; // what was looked at last; NULL: no file
    struct files__text
        *struck; // in whose code the state was full last, at `struck_ns`; may be NULL
    uint64_t struck_ns;
    struct files__text *banned; // fills the state whenever it runs, so it is not run; may be NULL
    char *installed;            // entries of plugins{...} that were handed over; NULL: none yet
    vm_ref forward;             // metatable of its former tables
    enum module_mark mark;      // of the run under way
    bool forced, visited;
    bool changed; // the run under way is about it
    bool reached; // it stays: see modules_unload.c
    bool leaving; // it is unloaded by the run under way
};

/// A Lua state with modules in it: the hub's own, one that it replaced, or a throw-away one of a dry
/// run.
struct space {
    struct modules *ms;
    struct vm *vm;
    struct state *state;
    struct map modules; // by name
    struct module *all; // the same
    struct vm_owner *own;
    vm_ref env_meta;               // of the modules' environments
    vec(struct version *) loading; // innermost last
    vec(struct version *) staged;  // of the run under way, in order of completion
    vec(struct version *) edges;   // pairs: connected through hub.state
    struct gen_stage *stage;       // NULL outside of stage()
    size_t grown, measured;        // of a rebuild: see stage_text()
    struct module *guilty; // in whose code the state died; NULL: in no module's, or it lives
    size_t alive;          // versions, and plugins inside them
    bool closing;          // free it with its last version
};

struct modules {
    struct bind *bind;
    struct gen_engine *engine;
    struct gen_source *source;
    uint64_t hooks_mark; // of the settings' hooks by command
    struct watch *watches[ROOT__COUNT];
    bool warned[ROOT__COUNT]; // of files that were left out
    struct lane *lane;
    struct plugins *past; // NULL: versions are not kept
    struct files files;
    struct space *space;
    struct space *trial;    // of the dry run under way
    struct space *former;   // dead; while a run puts `space` in its place
    bool stopped;           // it watches neither files nor settings any more
    bool booted;            // the load order is known
    files__names patterns;  // of the load order
    module_list order_list; // the same, expanded
    bool asked;             // the scan under way is for more than what changed
    bool warned_full;       // of a rebuild that no module caused
    bool alone;             // the run under way takes what changed, and all else as it serves
};

/// The module of that name, which is made when it is new.
struct module *modules__get(struct space *sp, struct str name);
struct space *space__open(struct modules *ms);
void space__retire(struct space *sp); // close it as soon as no version is left
void space__leave(struct space *sp);  // one less is alive in it
void version__free(struct version *v);
/// The name of the module that a request names: "lua:lib.x" or "lib.x".
struct str modules__name_of(struct str unit);
bool modules__is_protected(const struct module *m);
struct space *space__of(lua_State *L);

// ---- modules_graph.c: what a run is about ---------------------------------------------------

/// Mark what the request touches: MARK_STAGE is to be run again, MARK_TOUCHED is looked at only.
void graph__mark(struct modules *ms, const struct gen_request *req);
/// Is there anything that a save would change? Marks nothing.
bool graph__is_stale(struct modules *ms);
/// The modules marked `least` or more, dependencies first. The caller frees the vector.
module_list graph__order(struct modules *ms, enum module_mark least);
void graph__clear(struct modules *ms);
bool graph__is_named(const struct gen_request *req, const struct module *m);

// ---- modules_load.c: running one text -------------------------------------------------------

/// Run `m`'s text as a new version, in the stage under way; m->staged is set. When it fails and no version serves, the last
/// good text is run after it.
void load__stage(struct module *m, struct files__text *text);
/// require() of the hub's modules.
int load__require(lua_State *L);
/// The text that the run under way uses for `m`; NULL: it has none.
struct files__text *load__text(const struct module *m);
void list__add(module_list *l, struct module *m); // once

// ---- modules_rebuild.c: a state that is full -------------------------------------------------

/// The hub's state is dead: the next run makes a new one.
bool rebuild__is_due(const struct modules *ms);
void rebuild__run(struct modules *ms, struct gen_stage *s);
void rebuild__commit(struct modules *ms);
/// Another run follows: withdraw the warning about the hub itself.
void rebuild__forget(struct modules *ms);
/// In a rebuild: the text of `m` that served until now; otherwise NULL.
struct files__text *rebuild__text(const struct module *m);
vm_died_fn rebuild__on_death; // with the space

// ---- modules_plugins.c: plugins{...} ---------------------------------------------------------

/// plugins{...} as Lua calls it.
int installs__call(lua_State *L);
/// `v` was put: put the plugins inside it, too, and take out those that only the version before had.
void installs__put(struct gen_stage *s, struct version *v);
/// `old` (NULL: none) goes, and no version takes its place: the plugins inside it go, too.
void installs__remove(struct gen_stage *s, const struct version *old);
/// The version that served until now under the name of the module of `v`; NULL: none.
const struct version *installs__served(const struct version *v);
/// `v` serves: so do its plugins, and its entries are handed over.
void installs__commit(struct version *v);
/// Hand the entries of `list` (NULL: none) over as those of `m`, if they are others than before.
void installs__hand_over(struct module *m, const struct installs *list);
void installs__free(struct installs *list); // NULL is allowed
/// Was the feature `plugins` switched since the file of `v` (may be NULL) called plugins{}?
bool installs__are_stale(const struct version *v);
/// Does plugins{} in the file of `v` (may be NULL) contain a plugin of that name?
bool installs__has(const struct version *v, struct str name);

/// The plugin that a unit of ours is; NULL: it is a module.
struct plugin_version;
struct plugin_version *inside__plugin(const struct gen_unit *u);
/// The version of whose code a unit of ours is; NULL: of a plugin inside one that serves no more.
struct version *inside__version(const struct gen_unit *u);
/// The unit of a plugin is released.
void inside__release(struct gen_unit *u);

// ---- modules_past.c: versions that are kept --------------------------------------------------

/// The files are known: cover those that an undo holds.
void past__cover_all(struct modules *ms);
/// End holds of files that are others now, and those that the request forces.
void past__end_holds(struct modules *ms, const struct gen_request *req);
/// Report that `m` is held by an undo, if it is.
void past__say_held(struct gen_stage *s, const struct module *m);
/// `v` serves: keep it.
void past__serves(struct version *v);
/// The last good text of a file that is broken now; NULL: there is no other. The caller owns a reference.
struct files__text *past__last_good(const struct module *m, const struct files__text *broken);

// ---- modules_unload.c: what goes -------------------------------------------------------------

/// The versions of the run in `sp` have been judged: discard those that no module requires.
void unload__judge(struct space *sp);
void unload__say(struct space *sp, struct gen_stage *s);
void unload__commit(struct modules *ms);

// ---- modules_stage.c: judge and report ---------------------------------------------------------

/// Learn the load order anew: files that came meanwhile belong to it.
void stage__expand_order(struct modules *ms);
// for the source of generations, with the modules
void stage__run(void *modules, struct gen_stage *s);
void stage__commit(void *modules);
void stage__abort(void *modules);
/// Before and after the loads of a run in `sp`: judge them, report, keep or undo.
void stage__begin(struct space *sp, struct gen_stage *s);
void stage__end(struct space *sp);
/// Instead of stage__end(): discard everything.
void stage__drop(struct space *sp);

// ---- modules_forward.c ----------------------------------------------------------------------

/// Empty the table of a version that was replaced and let it, and all before it, stand for the
/// newest one. Nothing happens unless both are tables.
void forward__replace(struct space *sp, struct module *m, vm_ref old, vm_ref fresh);
