#pragma once

#include "gen/engine.h"
#include "plugin/host.h"
#include "watch/watch.h"

// What a plugin in a host offers: collected while it loads, then made part of a generation as hooks
// and tools that lead back into the host. Everything belongs to the loop thread.

struct host_unit;

typedef int host_watch_fn(void *arg, struct watch **out, struct watch_opts *o, watch_cb *cb,
                          void *cb_arg, struct err *e);

/// What may be registered.
struct host_rules {
    /// All that a plugin may offer, and what a handler changes in ctx.state and ctx.memory counts. Else hooks, events
    /// and tools, at points and events that are open.
    bool whole;
    const uint32_t *hook_ms, *tool_ms; // how long calls may take, read at each; NULL: the usual
    /// Watch files for a plugin, with the hub's settings for what `o` leaves out.
    host_watch_fn *watch;
    void *watch_arg;
};

/// One reference is the caller's. `rules` live as long as the program; `host` is set before anything is
/// called and borrowed until host_unit_detach().
struct host_unit *host_unit_new(const struct host_rules *rules);
void host_unit_unref(struct host_unit *u); // NULL is allowed
void host_unit_attach(struct host_unit *u, struct host *h);
/// The host goes: what is still called fails with a message.
void host_unit_detach(struct host_unit *u);

/// A register message came. Refuses what the rules do not name, and too much of anything.
int host_unit_register(struct host_unit *u, const struct json *what, struct err *e) MUST_CHECK;

/// One more came after host_unit_stage(): it becomes part of the unit at once, with the other ones of this turn of the loop
/// as one new generation. ERR_CONFLICT when that version was replaced. Before staging it is like host_unit_register().
int host_unit_add(struct host_unit *u, const struct json *what, struct err *e) MUST_CHECK;

/// Take back what the host registered with the number `ref`, staged or not. Calls under way continue. ERR_NOT_FOUND when there
/// is none, ERR_CONFLICT when that version was replaced.
int host_unit_off(struct host_unit *u, int64_t ref, struct err *e) MUST_CHECK;

/// Make all that was registered part of the staging unit `g`. What is refused is noted with it as
/// a diagnostic.
void host_unit_stage(struct host_unit *u, struct gen_unit *g);

/// A version that leaves, in its owner's storage until `life` is answered.
struct host_shutdown {
    struct host_call call;
    struct gen_life_call *life; // NULL: it does not leave
    const char *path;           // borrowed, of the version
};
/// Tell the code in `h` that it leaves and why, and answer `life` when it is done with that, at the latest after `ms`;
/// at once when it has ended.
void host_unit_shutdown(struct host_shutdown *s, struct host *h, enum gen_reason why, uint32_t ms,
                        const char *path, struct gen_life_call *life);

/// Does it listen to this event; with STR_NULL, to any at all?
bool host_unit_hears(const struct host_unit *u, struct str event);
