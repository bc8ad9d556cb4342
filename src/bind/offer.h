#pragma once

#include "bind/agent_args.h"
#include "bind/plugin_int.h"
#include "gen/route.h"

// What a plugin offers to the hub: tools, commands, prompt sections, routes, providers. An offer is the `data` of its
// item.

struct offer;
struct offer_job;

/// How one kind is called and answers.
struct offer_kind {
    const char *what;       // "tool", for messages
    enum gen_kind kind;     // of its item
    enum gen_code conflict; // code of a second one of the same name
    const void *face;       // of its item
    /// Push the arguments; returns how many.
    int (*push)(struct offer_job *j, lua_State *L);
};

struct offer {
    const struct offer_kind *kind;
    struct bind_owner *o;
    vm_ref fn;
    char *name;
    char *about; // JSON text; what `schema` points into
    struct arena arena;
    const struct json *schema; // of a tool's input; NULL: anything
    struct hook_stats stats;
    unsigned strikes; // time-outs in a row
    bool off;         // a route that was switched off
};

/// A call ended. Frees the job and its arena.
typedef void offer_ended(struct offer_job *j, const struct bind_result *r);

/// One call under way. The first member of what a kind needs for it.
struct offer_job {
    struct offer *offer;
    struct bind_call *call;
    uint64_t began_ns;
    struct agent_ctx ctx;
    struct arena arena;
    offer_ended *ended;
};

// ---- offer.c --------------------------------------------------------------------------------------

/// Register an offer of the running plugin under `name`; it calls the function at `fn` (0: it is never called). Pushes a
/// handle with off(), or nil and a message when the plugin already has one of that name. Returns how many.
int offer_add(lua_State *L, const struct offer_kind *kind, struct str name, struct str about,
              enum gen_naming naming, int fn);

/// Begin a call of `f` with the zeroed job `j`. False: it can no longer be called, and `ended` is not called.
bool offer_begin(struct offer_job *j, struct offer *f, offer_ended *ended, uint32_t timeout_ms);
/// Cancel a call that has not ended; `ended` is not called. The caller frees the job.
void offer_cancel(struct offer_job *j);
/// Fill `e` with what went wrong in a call that ended without results, and return its code.
int offer_fault(struct err *e, const struct bind_result *r);
/// The values that a finished call returned are of no use, as `e` says: count it, note it with the plugin and add the place to
/// `e`. Returns its code.
int offer_bad_answer(struct offer_job *j, lua_State *L, struct err *e);
/// How many calls there were and how long they took.
const struct hook_stats *offer_stats(const void *data);

// These read the table at 1 that describes an offer. They raise what is wrong with it; the message begins with `who`.

/// Check that it is a table with no other keys, and drop everything else from the stack.
void offer_check(lua_State *L, const char *who, const char *const *keys);
/// The same, and return its `name`; `like` is an example of a valid one.
struct str offer_name(lua_State *L, const char *who, const char *const *keys, const char *like);
/// GEN_NAME_LONG when it says `short = false`: it is known as PLUGIN:NAME alone.
enum gen_naming offer_naming(lua_State *L);
/// The text at `key`.
struct str offer_text(lua_State *L, const char *who, const char *key, struct str fallback);
/// Write that text, if there is one, as the member `as`.
void offer_write_text(lua_State *L, struct jw *w, const char *who, const char *key, const char *as);
/// The function at `key`, kept on the stack; returns its index.
int offer_fn(lua_State *L, const char *who, const char *key);
/// The value at `key`, sorted; NULL: there is none.
struct json *offer_value(lua_State *L, const char *who, const char *key, struct arena *a);
/// Sort all members. Lua lists the fields of a table in another order at each load; a text that is sent with every request
/// must not change with it, or providers could not cache what follows.
void offer_sort(struct json *v);

extern const struct gen_target offer_target; // of tools, commands and prompt sections

// ---- what plugins call ------------------------------------------------------------------------------

/// tool{}, command{}, route(), response{}: see the guide for plugins. Wrong arguments raise.
int offer_tool(lua_State *L);
int offer_command(lua_State *L);
int offer_route(lua_State *L);
int offer_response(lua_State *L);
/// A prompt section whose text the function at `fn` gives.
int offer_prompt(lua_State *L, struct str id, struct str about, int fn);

/// provider{name, models, stream}
int offer_provider(lua_State *L);

/// mcp.prompt{}, mcp.resource{}; mcp.tool is tool{}.
int offer_mcp_prompt(lua_State *L);
int offer_mcp_resource(lua_State *L);
/// mcp.updated(uri): the content of a resource changed; notify clients that subscribed to it.
int offer_mcp_updated(lua_State *L);
/// The call of the generation that a job belongs to.
struct gen_call *offer_gen_call(struct offer_job *j);
/// Push its ctx.
void offer_push_ctx(struct offer_job *j, lua_State *L);
/// Push its input and ctx: the arguments of commands and MCP prompts. Returns 2.
int offer_push_input(struct offer_job *j, lua_State *L);

// ---- offer_tool.c -----------------------------------------------------------------------------------

extern const struct offer_kind offer_tool_kind;
/// The result of a tool, {output, success, error?}, in the job's arena.
int offer_tool_read(struct offer_job *j, lua_State *L, int n, const struct json **out,
                    struct err *e) MUST_CHECK;
