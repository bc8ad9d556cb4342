#pragma once

#include "bind/bind_int.h"
#include "hook/args.h"
#include "lua/record.h"

// The arguments of the agent's hook points as Lua handlers see them, and `ctx` of tools and commands.

/// `ctx` of one call: a record over the session's, as it was when the call began.
struct agent_ctx {
    struct bind *bind;
    struct hook_ctx *of; // NULL: outside of a session
    const struct json *state, *memory;
    struct bind_call *call;     // that it is the argument of; NULL: not known
    struct gen_call *stream;    // of a provider, for emit(); NULL: of something else
    struct question *questions; // under way; see ctx_ask.c
    uint64_t number;            // by which its functions find it; 0: none was read
    unsigned asked;             // questions so far
    record_id id;
};

/// Its functions: ctx.progress(), and of ctx_ask.c those that ask the caller. Each finds the ctx that runs.
void agent_ctx_push_fn(struct agent_ctx *c, lua_State *L, lua_CFunction fn);
/// The ctx of the function that runs; NULL: its call has ended.
struct agent_ctx *agent_ctx_of(lua_State *L);
/// ctx.log(), ctx.ask(), ctx.elicit(), ctx.sample(), ctx.roots()
int agent_ctx_log(lua_State *L);
int agent_ctx_ask(lua_State *L);
int agent_ctx_elicit(lua_State *L);
int agent_ctx_sample(lua_State *L);
int agent_ctx_roots(lua_State *L);
/// The call has ended: so do the questions that other code asked through its ctx.
void agent_ctx_forget_questions(struct agent_ctx *c);

/// Push `ctx`; `c` stays where it is until agent_ctx_drop().
void agent_ctx_push(struct agent_ctx *c, lua_State *L, struct bind *b, struct hook_ctx *of);
/// The call ended well: what it changed in ctx.state and ctx.memory counts. ERR_INVALID when that cannot
/// be kept.
int agent_ctx_take(struct agent_ctx *c, struct vm *vm, struct err *e) MUST_CHECK;
void agent_ctx_drop(struct agent_ctx *c, struct vm *vm); // also when nothing was pushed

/// All arguments of one handler.
struct agent_args {
    struct agent_ctx ctx;
    record_id ids[HOOK_ARGS]; // 0: a plain value
};

/// Push ctx and the values; returns how many.
int agent_args_push(struct agent_args *f, lua_State *L, struct bind *b, const struct hook_args *a);
/// The handler returned the value at `idx`: let it take the last argument's place. HOOK_VALUE, HOOK_KEEP
/// when it is what was there, HOOK_FAILED with the run's fault filled in.
enum hook_answer agent_args_take(struct agent_args *f, struct hook_run *run, lua_State *L, int idx);
/// Did it write into the last argument? Its name ("call"), else NULL.
const char *agent_args_dropped(const struct agent_args *f, struct vm *vm,
                               const struct hook_args *a);
void agent_args_drop(struct agent_args *f, struct vm *vm);
