// provider{name, models, description, stream}: a model provider in Lua.
//
//     stream(ctx, request, emit)      request is the one of on_before_model
//       emit("text"), emit{reasoning =}, emit{tool_call = {name, input}}, emit{usage =}, emit{error =}
//
// The item's `about` is {description, models}, which lists of models show. What events may hold is said and checked by
// agent/provider_plugin.c, whose emit() is called here.

#include <lauxlib.h>

#include "bind/offer.h"

/// emit(event): a text or a table; raises what is wrong with it, so that the author sees the line.
static int l_emit(lua_State *L)
{
    const struct agent_ctx *c = agent_ctx_of(L);
    struct json *event;
    struct err e = {0};
    lua_settop(L, 1);
    if (c == NULL || c->stream == NULL) {
        return luaL_error(L, "emit: this stream has ended");
    }
    if (value_read(&event, &args_scratch(L)->arena, L, 1, &e) < 0 ||
        c->stream->emit(c->stream, event, &e) < 0) {
        return luaL_error(L, "emit: %s", e.msg);
    }
    return 0;
}

static int push_stream(struct offer_job *j, lua_State *L)
{
    struct gen_call *gen = offer_gen_call(j);
    offer_push_ctx(j, L);
    j->ctx.stream = gen;
    value_push(L, gen->input);
    agent_ctx_push_fn(&j->ctx, L, l_emit);
    return 3;
}

static const struct offer_kind provider_kind = {"provider", GEN_PROVIDER, DIAG_OUTPUT_CONFLICT,
                                                &offer_target, push_stream};

int offer_provider(lua_State *L)
{
    static const char *const keys[] = {"name", "description", "models", "stream", NULL};
    struct str name = offer_name(L, "provider", keys, "my-models");
    struct args_scratch *s = args_scratch(L);
    struct jw w = {.out = &s->buf};
    jw_obj(&w);
    jw_karr(&w, "models");
    if (args_field(L, 1, "models")) {
        int list = lua_gettop(L);
        luaL_checktype(L, list, LUA_TTABLE);
        for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
            jw_str(&w, args_str(L, -1, "provider", "each of 'models'"));
            lua_settop(L, list);
        }
    }
    jw_end_arr(&w);
    offer_write_text(L, &w, "provider", "description", "description");
    jw_end_obj(&w);
    return offer_add(L, &provider_kind, name, args_json(L, s, "provider", "the table"),
                     GEN_NAME_PLAIN, offer_fn(L, "provider", "stream"));
}
