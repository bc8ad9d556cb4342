#pragma once

#include "base/err.h"
#include "base/vec.h"
#include "gen/diag.h"
#include "hook/set.h"

// What is in a generation: units, what they contribute, and the indexes over all of it.
//
//     generation 12 ──┬── unit lua:lib.a  (revision 1) ──── hooks, timers, ...
//                     ├── unit lua:lib.b  (revision 4) ──── hooks, tools, ...
//                     └── index: hooks by point, tools by name, ...
//
// A generation never changes once it was committed; code that works in it pins it. A unit is one version of
// one module, improvement or plugin; it lives as long as some generation holds it. All of it belongs
// to the loop thread.

struct gen;
struct gen_unit;
struct gen_item;
struct gen_engine;

enum gen_kind {
#define KIND(id, name, code, event) GEN_##id,
#include "gen/kinds.def"
#undef KIND
    GEN__KINDS
};
/// "hook", "tool", ...: as in kinds.def.
const char *gen_kind_name(enum gen_kind kind);

#define GEN_STATES(X)                                                                              \
    X(LOADED, "loaded")                                                                            \
    X(ADDED, "added")                                                                              \
    X(CHANGED, "changed")                                                                          \
    X(KEPT, "kept")                                                                                \
    X(REMOVED, "removed")                                                                          \
    X(FAILED, "failed")                                                                            \
    X(DISABLED, "disabled")                                                                        \
    X(UNTRUSTED, "untrusted")                                                                      \
    X(HELD, "held")

enum gen_state {
#define X(id, name) GEN_##id,
    GEN_STATES(X)
#undef X
};
/// As rows show it.
const char *gen_state_name(enum gen_state state);

// ---- what runs a contribution -------------------------------------------------------------------

struct gen_call;
struct hook_ctx;
/// The answer, once, on the loop thread: 0 and a value, or a negative code and `e`. Inside, `call`
/// may be freed; `output` is borrowed for the call. A tool's value is a result {output: text, success,
/// error?}, a command's any JSON, a prompt's a text.
typedef void gen_call_done(struct gen_call *call, int status, const struct json *output,
                           const struct err *e);

/// One call of a tool, command or prompt section, in the caller's storage until `done`. The caller pins
/// the generation in which it found the target for as long.
struct gen_call {
    const struct json *input; // a tool's input, a command's arguments; borrowed until `done`
    struct hook_ctx *ctx;     // of the session; borrowed until `done`; NULL: outside of one
    uint32_t timeout_ms;      // 0: the target's own
    gen_call_done *done;
    /// The stream of a provider says a piece of its answer; not after `done`. A negative code and `e`: that is none,
    /// or the reader takes no more. NULL: the target is no provider.
    int (*emit)(struct gen_call *call, const struct json *event, struct err *e);
    void *arg;
    void *target_data; // the target's own
};

/// What runs a tool, command or prompt section: Lua in the hub, a child process. The `face` of an item
/// of these kinds.
struct gen_target {
    /// Begin; `done` may come before this returns.
    void (*call)(void *data, struct gen_call *call);
    /// Give up; `done` is not called after this.
    void (*cancel)(void *data, struct gen_call *call);
    /// What its calls cost so far. NULL: not counted.
    const struct hook_stats *(*stats)(const void *data);
};

// ---- contributions ------------------------------------------------------------------------------

/// What the engine does with an item, whatever its kind. Any may be NULL. None may fail.
struct gen_item_ops {
    /// It became part of the current generation (timers and watches begin here, not before).
    void (*start)(void *data);
    /// It is not part of it any more: from here it may not fire. What is suspended in it continues.
    void (*stop)(void *data);
    /// The last generation that holds it was freed. For hooks the target's release() is this.
    void (*release)(void *data);
};

/// Where names of a kind are unique.
enum gen_naming {
    GEN_NAME_PLAIN,    // "roll", if no other unit has it first, and always "unit:roll"
    GEN_NAME_OVERRIDE, // the same, and "roll" may be the name of a built-in tool
    GEN_NAME_LONG,     // "unit:roll" alone: other units may have a "roll", too
};

/// A contribution other than a hook. Strings are copied; `ops`, `face` live as long as the program.
struct gen_item_spec {
    enum gen_kind kind;
    struct str name;  // "roll", "GET /stats/:day"; may be empty where names need not be unique
    struct str about; // its description, JSON text; a tool whose `about` differs changed
    enum gen_naming naming;
    const struct gen_item_ops *ops; // NULL: none
    const void *face; // the vtable of its kind: gen_target for tools, routes, commands
    void *data;
};

/// Register something for `u`. What it means depends on where the unit is in its life:
///   staging   recorded, invisible until the unit is committed, discarded with it
///   current   a change of the current set: what is registered in one turn of the loop is one new
///             generation, trigger "register"; visible at once to gen_current()
///   draining  refused: ERR_CONFLICT with "stale handle ..." (STALE_HANDLE)
/// On failure `data` was not taken over. `out` may be NULL; `*out` is borrowed and valid until it is
/// taken back, replaced or released: to keep a handle, keep gen_item_id().
int gen_unit_add(struct gen_unit *u, const struct gen_item_spec *spec, struct gen_item **out,
                 struct err *e) MUST_CHECK;
/// The same for a handler; `owner` and `order` of the spec are set here. One of this unit with the
/// same (point, kind, name) is taken back.
int gen_unit_hook(struct gen_unit *u, const struct hook_spec *spec, struct gen_item **out,
                  struct err *e) MUST_CHECK;

/// Take a registration back: from now it does not fire, the next generation is without it. ERR_CONFLICT
/// when its unit is draining.
int gen_item_off(struct gen_item *it, struct err *e) MUST_CHECK;

/// The same by the id of an item of `u`, for handles that outlive what they name: ERR_NOT_FOUND when it
/// is gone already.
int gen_unit_off(struct gen_unit *u, uint64_t id, struct err *e) MUST_CHECK;

/// Its id, which is never used again in one engine.
uint64_t gen_item_id(const struct gen_item *it);
/// The item of a handler that gen_hooks() lists; NULL when it was taken back.
struct gen_item *gen_item_of(const struct hook *h);
enum gen_kind gen_item_kind(const struct gen_item *it);
const char *gen_item_name(const struct gen_item *it);  // "" when it has none
const char *gen_item_about(const struct gen_item *it); // "" when it has none
/// The same as JSON, in `a`; an empty object when that says nothing.
const struct json *gen_item_read_about(const struct gen_item *it, struct arena *a);
const void *gen_item_face(const struct gen_item *it);
void *gen_item_data(const struct gen_item *it);
struct hook *gen_item_hook(const struct gen_item *it); // NULL unless GEN_HOOK
struct gen_unit *gen_item_unit(const struct gen_item *it);
bool gen_item_is_off(const struct gen_item *it);

// ---- units --------------------------------------------------------------------------------------

enum gen_life { GEN_STAGING, GEN_CURRENT, GEN_DRAINING };

/// What a unit is. Strings are copied, NULL means empty.
struct gen_unit_spec {
    const char *name;   // "lua:lib.x", "improvements/x", "logger"
    const char *path;   // of its code
    const char *layer;  // shipped user user-profile repo repo-profile config improvement
    const char *host;   // hub lua python node c
    const char *origin; // module directory file init
    const char *hash;   // of its content
    int order;          // load order within its source; equals keep the order in which they came
    const struct str *prefer; // plain names that it wins over earlier units; copied
    size_t n_prefer;
    void *data; // the source's own
};

/// Read-only outside gen/.
struct gen_unit {
    char *name, *path, *layer, *host, *origin, *hash;
    int order;
    vec(char *) prefer;
    void *data;        // the source may set it
    uint64_t revision; // 1, 2, ... of that name; 0 while staging
    uint64_t since;    // number of the generation that brought it
    enum gen_life life;
    // private
    struct gen_engine *engine;
    struct gen_source *owner;
    uint64_t name_hash;
    bool entered;  // it was told that it has come
    uint64_t seq;  // of the first version of that name, for the load order
    unsigned refs; // generations that hold it, and the stage while there is one
    vec(struct gen_item *) items;
    vec(struct gen_diag) diags;
};

/// Its items, hooks included, in order of registration.
size_t gen_unit_count(const struct gen_unit *u);
struct gen_item *gen_unit_at(const struct gen_unit *u, size_t i);
/// Keep a diagnostic with this version of the unit: it is in every report until the unit changes.
/// One with the same code, path, line and hook is replaced, if it is of code that ran or has the same message; 32 at most
/// are kept, the newest last.
/// False: exactly this was known already.
bool gen_unit_note(struct gen_unit *u, const struct gen_diag *d);
/// Note a fault of code that ran: a new one is also an event plugin.error. Returns whether it was new.
bool gen_unit_fault(struct gen_unit *u, const struct gen_diag *d);
/// What was noted so far, oldest first; borrowed until the next note.
const struct gen_diag *gen_unit_diags(const struct gen_unit *u, size_t *n);
/// What its handlers cost, by point: {"on_tool_call": {count, errors, p50_us, p99_us}, ...}, those of
/// the agent in the order of a turn, then the others in order of registration.
void gen_unit_write_stats(const struct gen_unit *u, struct jw *w);

// ---- a generation -------------------------------------------------------------------------------

/// Its number: that of the one before, and 1.
uint64_t gen_number(const struct gen *g);
/// Keep it alive while code runs in it: a step, a request, a dispatch.
struct gen *gen_pin(struct gen *g);
/// The last one frees it, in the loop's next turn. NULL is allowed.
void gen_unpin(struct gen *g);

/// Its units, in load order; by name: NULL when absent.
size_t gen_count(const struct gen *g);
struct gen_unit *gen_at(const struct gen *g, size_t i);
struct gen_unit *gen_unit_find(const struct gen *g, struct str name);

/// A walk over all items of a kind that are not off, unit by unit, in order of registration.
struct gen_walk {
    struct gen_unit *const *units;
    size_t n_units;
    enum gen_kind kind;
    size_t unit, item; // the next one
};
/// Begin a walk over a generation (NULL: over nothing), or over these units. Nothing may be registered meanwhile.
struct gen_walk gen_walk(const struct gen *g, enum gen_kind kind);
struct gen_walk gen_walk_units(struct gen_unit *const *units, size_t n, enum gen_kind kind);
/// The next item; NULL: there are no more.
struct gen_item *gen_walk_next(struct gen_walk *w);

/// All its handlers, in load order. Runs on it pin the generation by themselves.
const struct hook_set *gen_hooks(const struct gen *g);
/// The handlers of these units only, ranked in this order (a session's plugins). The caller frees it
/// with hook_set_free() before it unpins the generation; unknown names are passed over.
struct hook_set *gen_hooks_of(struct gen *g, const struct str *units, size_t n);

/// The item with this plain name or "unit:name"; NULL: there is none.
struct gen_item *gen_item_find(const struct gen *g, enum gen_kind kind, struct str name);
/// Does `it` own its plain name here?
bool gen_item_is_plain(const struct gen *g, const struct gen_item *it);
