// mcp.prompt{} and mcp.resource{}: what only clients over MCP see. Tools for them are tool{}.
//
//     mcp.prompt{name, title, description, arguments = {"who", {name, description, required, values}}, get}
//     mcp.resource{uri | uri_template, name, title, description, mime, values, read}
//
// The item's `about` is the description that clients get, in MCP's terms, plus `values`: the completions of an argument or
// of a variable of a template. It is written in a fixed order, so that a list changes only when its content does.
// src/mcpserver/ turns what the handlers return into messages and contents.

#include <lauxlib.h>

#include "bind/offer.h"
#include "event/event.h"
#include "proto/events.h"

/// The input is {uri, params}: what was asked for, and the variables of the template in it.
static int push_resource(struct offer_job *j, lua_State *L)
{
    const struct json *input = offer_gen_call(j)->input;
    value_push(L, json_get(input, "uri"));
    value_push(L, json_get(input, "params"));
    offer_push_ctx(j, L);
    return 3;
}

static const struct offer_kind prompt_kind = {"mcp.prompt", GEN_MCP_PROMPT, DIAG_PROMPT_CONFLICT,
                                              &offer_target, offer_push_input};
static const struct offer_kind resource_kind = {"mcp.resource", GEN_MCP_RESOURCE,
                                                DIAG_OUTPUT_CONFLICT, &offer_target, push_resource};

static void write_argument(lua_State *L, struct jw *w, const struct json *v)
{
    struct str name = v->type == JSON_STR ? v->s : json_str(json_get(v, "name"), "");
    if (name.n == 0) {
        luaL_error(L, "mcp.prompt: each of 'arguments' is a name or a table with 'name'");
    }
    jw_obj(w);
    jw_kstr(w, "name", name);
    const struct json *about = json_get(v, "description");
    if (about != NULL && about->type == JSON_STR) {
        jw_kstr(w, "description", about->s);
    }
    jw_kbool(w, "required", json_bool(json_get(v, "required"), false));
    if (json_get(v, "values") != NULL) {
        jw_kvalue(w, "values", json_get(v, "values"));
    }
    jw_end_obj(w);
}

/// Check the table at 1 and return its name, which may be any text.
static struct str begin(lua_State *L, const char *who, const char *const *keys)
{
    offer_check(L, who, keys);
    args_field(L, 1, "name");
    struct str name = args_str(L, -1, who, "name");
    if (name.n == 0 || name.n > 128) {
        luaL_error(L, "%s: 'name' has 1 to 128 bytes", who);
    }
    return name;
}

int offer_mcp_prompt(lua_State *L)
{
    static const char *const keys[] = {"name", "title", "description", "arguments", "get", NULL};
    struct str name = begin(L, "mcp.prompt", keys);
    struct args_scratch *s = args_scratch(L);
    const struct json *arguments = offer_value(L, "mcp.prompt", "arguments", &s->arena);
    struct jw w = {.out = &s->buf};
    jw_obj(&w);
    offer_write_text(L, &w, "mcp.prompt", "title", "title");
    offer_write_text(L, &w, "mcp.prompt", "description", "description");
    jw_karr(&w, "arguments");
    json_foreach_item (it, arguments) {
        write_argument(L, &w, it);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    return offer_add(L, &prompt_kind, name, args_json(L, s, "mcp.prompt", "the table"),
                     GEN_NAME_PLAIN, offer_fn(L, "mcp.prompt", "get"));
}

int offer_mcp_resource(lua_State *L)
{
    static const char *const keys[] = {"uri",  "uri_template", "name", "title", "description",
                                       "mime", "values",       "read", NULL};
    static const char who[] = "mcp.resource";
    struct str name = begin(L, who, keys);
    struct str uri = offer_text(L, who, "uri", STR_NULL);
    struct str template = offer_text(L, who, "uri_template", STR_NULL);
    bool is_template = template.n != 0;
    if ((uri.n != 0) == is_template) {
        return luaL_error(L, "mcp.resource: give either 'uri' or 'uri_template'");
    }
    uri = is_template ? template : uri;
    if (uri.n > 1024 || str_index(uri, ':') <= 0) {
        return luaL_error(L, "mcp.resource: invalid address '%s'; use one like 'notes://today'",
                          uri.p);
    }
    struct args_scratch *s = args_scratch(L);
    const struct json *values = offer_value(L, who, "values", &s->arena);
    struct jw w = {.out = &s->buf};
    jw_obj(&w);
    jw_kbool(&w, "template", is_template);
    jw_kstr(&w, "name", name);
    offer_write_text(L, &w, who, "title", "title");
    offer_write_text(L, &w, who, "description", "description");
    offer_write_text(L, &w, who, "mime", "mimeType");
    if (values != NULL) {
        jw_kvalue(&w, "values", values);
    }
    jw_end_obj(&w);
    return offer_add(L, &resource_kind, uri, args_json(L, s, who, "the table"), GEN_NAME_PLAIN,
                     offer_fn(L, who, "read"));
}

void bind__mcp_updated(struct bind *b, struct str uri)
{
    struct buf text = {.max = SIZE_MAX};
    buf_addz(&text, "\"uri\":");
    struct jw w = {.out = &text};
    jw_str(&w, uri);
    event_emit(b->o.hub->events, str_of(event_infos[EVENT_RESOURCE_UPDATED].type), STR_NULL,
               buf_str(&text));
    buf_fini(&text);
}

int offer_mcp_updated(lua_State *L)
{
    struct str uri = args_str(L, 1, "mcp.updated", "the address");
    plugin__running(L, "mcp.updated");
    bind__mcp_updated(bind_of(L), uri);
    return 0;
}
