#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "gen/route.h"
#include "hook/args.h"
#include "hook/run.h"
#include "plugin/host_unit.h"

// What the files of host_unit share: the offers of one host, and how each kind of them is called.

enum offer_kind {
    OFFER_HOOK,
    OFFER_TOOL,
    OFFER_COMMAND,
    OFFER_PROMPT,
    OFFER_ROUTE,
    OFFER_EVENT,
    OFFER_FLAG,
    OFFER_UI,
    OFFER_PROVIDER,
    OFFER_MCP_PROMPT,
    OFFER_MCP_RESOURCE,
    OFFER_WATCH,
};

struct offer {
    struct host_unit *unit; // a reference once it is staged
    enum offer_kind kind;
    char *name;      // of the point, tool, event, ...; of a watch: the directory
    char *title;     // of a hook: its own name; of the others: their `about`
    char *filter;    // of a hook: a glob of tools; of a watch: one of file names, or NULL
    int64_t ref;     // the host's number for it, by which it takes it back; 0: it gave none
    uint64_t item;   // its id in the unit; 0: not staged yet
    bool held;       // a generation may call it
    bool gone;       // taken back: it goes with the last generation that holds it
    int64_t handler; // of a hook: the host's number for it
    enum hook_kind how;
    enum hook_on_error on_error;
    int priority;
    uint32_t timeout_ms;
    enum gen_naming naming;
    bool dynamic;              // a prompt section whose text the host gives
    struct arena arena;        // of `schema`
    const struct json *schema; // of a tool's input; NULL: anything
    struct hook_stats stats;
    struct watch *watch;  // while its unit serves
    bool recursive, poll; // of a watch
    unsigned strikes;     // time-outs in a row, of a route
    bool off;             // a route that was switched off
};

struct hook_job; // of host_hook.c

struct host_unit {
    unsigned refs;
    const struct host_rules *rules;
    struct host *host; // NULL once detached
    struct gen_unit *gen;
    vec(struct offer *) offers;
    vec(struct hook_job *) jobs; // hooks under way, in the order in which they came
};

/// The object text of `object` without its braces.
static inline struct str host__inner(const struct buf *object)
{
    return (struct str){object->p + 1, object->n - 2};
}

/// Can it be called?
static inline bool host__is_live(const struct offer *o)
{
    return o->unit->host != NULL && host_alive(o->unit->host);
}

/// Give up a call of the offer: its answer does not count.
static inline void host__cancel(const struct offer *o, struct host_call *c)
{
    if (o->unit->host != NULL) {
        host_cancel(o->unit->host, c);
    }
}

/// For how long a tool, route, command or prompt section may run.
uint32_t host__tool_ms(const struct host_unit *u);
/// A call that began at `since_ns` ended: count it.
void host__count(struct offer *o, uint64_t since_ns, bool failed);
/// Note a fault of the code with its plugin; `what` ran.
void host__note(struct gen_unit *g, const char *what, const struct host_fault *f);
/// The same for a call of the offer that failed: with `fault`, or because its answer is invalid (`rc`, `why`).
void host__note_call(const struct offer *o, int rc, const struct err *why,
                     const struct host_fault *fault);
const struct hook_stats *host__stats(const void *data);
/// The last generation that held the offer is gone.
void host__release(void *data);

// ---- host_watch.c
/// Read what is to be watched.
int host__watch_read(struct offer *o, const struct json *what, struct err *e) MUST_CHECK;
/// Members of struct gen_item_ops: the unit begins and ends to serve.
void host__watch_start(void *offer);
void host__watch_stop(void *offer);

extern const struct hook_target host__hook_face;
extern const struct gen_target host__call_face; // of all that is called, but for routes
extern const struct gen_route host__route_face;
