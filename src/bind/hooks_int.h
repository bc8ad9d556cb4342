#pragma once

#include "bind/bind_int.h"

// What hooks.c (registering, dispatching) and hooks_run.c (running a handler) share.

enum { HOOKS_ARGS_MAX = 64, HOOKS_BYTES = 768 }; // bytes: what a handler costs in C, about

/// The arguments of a dispatch of a free event, as run->args: values in the Lua state of the dispatching code, or JSON
/// values. Handlers of that state get the values themselves, those of another state get copies.
struct hooks__args {
    uint32_t magic;
    struct vm *vm;              // NULL: `values`
    int table;                  // registry reference in `vm`
    int n;                      // exactly as many as were given, nil counted
    const struct json **values; // NULL in it: nil
    struct arena own;           // has the list `values`
    struct arena *in;           // for JSON values that handlers answer with; NULL: `own`
};

/// Take `n` values off the top of `L`. May raise; nothing is held then.
void hooks__args_take(struct hooks__args *a, lua_State *L, int n);
void hooks__args_of(struct hooks__args *a, const struct json *value); // borrowed; NULL: no argument
/// Copy what is borrowed, and what is in a Lua state, to `own`: neither is needed from now on. What cannot be copied, or
/// is beyond 16 MiB, becomes nil.
void hooks__args_detach(struct hooks__args *a);
void hooks__args_fini(struct hooks__args *a);
/// Push all of them; returns how many. Raises nothing after lua_checkstack().
int hooks__args_push(const struct hooks__args *a, lua_State *L);

extern const struct hook_target hooks__target;
/// The data of a handler: the function on top of `L`, taken off, for `o`. `agent`: of a point of
/// points.def, whose arguments are a hook_args; else they are a hooks__args. It was counted as one of
/// the owner's hooks; hooks__handler_free() takes that back.
void *hooks__handler_new(lua_State *L, struct bind_owner *o, bool agent);
void hooks__handler_free(void *data);
