// The authoring API of plugins, as globals of their Lua states.
//
//     plugin{}  tool{}  route()  command{}  prompt()  flag{}  preserve_ui()  provider{}
//     mcp.tool{}  mcp.prompt{}  mcp.resource{}  mcp.updated()
//     response{}  ToolCall{}  ToolResult{}          on() and on_x() are in every state (on.c)
//
// Whatever registers does so for the version whose code runs, at load or later.

#include <lauxlib.h>

#include "bind/offer.h"
#include "plugin/manifest.h"
#include "store/tree.h"

static const struct offer_kind text_kind = {
    .what = "prompt", .kind = GEN_PROMPT, .conflict = DIAG_PROMPT_CONFLICT};
static const struct offer_kind flag_kind = {
    .what = "flag", .kind = GEN_FLAG, .conflict = DIAG_FLAG_CONFLICT};
static const struct offer_kind key_kind = {
    .what = "preserve_ui", .kind = GEN_OUTPUT, .conflict = DIAG_OUTPUT_CONFLICT};

// ---- plugin{} -----------------------------------------------------------------------------------

/// Does a manifest say which API the plugin is written for? Then that was checked, and it wins.
static bool is_declared(const struct plugin__version *v)
{
    static const struct {
        const char *file, *pointer;
    } places[] = {{"plugin.json", "/api"}, {"package.json", "/afloat/api"}};
    const struct tree *t = v->head.code->tree;
    bool found = false;
    for (size_t i = 0; i < ARRAY_LEN(places) && !t->is_file; i++) {
        const struct tree_file *f = tree_find(t, str_of(places[i].file));
        struct arena a = {0};
        struct json *j = NULL;
        if (f != NULL && json_parse(&j, &a, f->bytes, NULL, NULL) == 0) {
            found = found || json_ptr(j, places[i].pointer) != NULL;
        }
        arena_fini(&a);
    }
    return found;
}

/// plugin{api, name, description, ...}
int plugin__api_plugin(lua_State *L)
{
    struct plugin__version *v = plugin__running(L, "plugin");
    struct json *said;
    struct err e = {0};
    luaL_checktype(L, 1, LUA_TTABLE);
    if (value_read(&said, &v->arena, L, 1, &e) < 0) {
        return luaL_error(L, "plugin: %s", e.msg);
    }
    const struct json *api = json_get(said, "api");
    if (api != NULL && !is_declared(v)) {
        bool text = api->type == JSON_STR;
        struct str version = text ? api->s : STR("?");
        if (api->type == JSON_INT || api->type == JSON_DOUBLE) {
            lua_getfield(L, 1, "api");
            version.p = lua_tolstring(L, -1, &version.n);
        }
        if (plugin_api_check(version, &e) < 0) {
            v->incompatible = true;
            return luaL_error(L, "%s", e.msg);
        }
    }
    v->head.metadata = said;
    return 0;
}

// ---- prompt -------------------------------------------------------------------------------------

/// The id of a section that has none: the plugin's name, then NAME-2, NAME-3, ...
static const char *free_id(lua_State *L, const struct plugin__version *v)
{
    unsigned n = 1;
    for (size_t i = 0; i < gen_unit_count(v->unit); i++) {
        n += gen_item_kind(gen_unit_at(v->unit, i)) == GEN_PROMPT;
    }
    return n == 1 ? v->head.code->name : lua_pushfstring(L, "%s-%d", v->head.code->name, (int)n);
}

/// The section at 1: {id, text, priority}. `text` is at `text`, a string or a function.
static int add_prompt(lua_State *L, struct str id, int text, lua_Integer priority)
{
    struct args_scratch *s = args_scratch(L);
    bool dynamic = lua_isfunction(L, text);
    struct jw w = {.out = &s->buf};
    jw_obj(&w);
    jw_kint(&w, "priority", priority);
    if (!dynamic) {
        jw_kstr(&w, "text", args_str(L, text, "prompt", "text"));
    }
    jw_end_obj(&w);
    struct str about = args_json(L, s, "prompt", "the text");
    return dynamic ? offer_prompt(L, id, about, text)
                   : offer_add(L, &text_kind, id, about, GEN_NAME_PLAIN, 0);
}

/// prompt(text) or prompt{id, text, priority}
int plugin__api_prompt(lua_State *L)
{
    static const char *const keys[] = {"id", "text", "priority", NULL};
    const struct plugin__version *v = plugin__running(L, "prompt");
    lua_settop(L, 1);
    if (!lua_istable(L, 1)) {
        return add_prompt(L, str_of(free_id(L, v)), 1, 0);
    }
    offer_check(L, "prompt", keys);
    lua_Integer priority = args_field(L, 1, "priority") ? luaL_checkinteger(L, -1) : 0;
    struct str id = offer_text(L, "prompt", "id", STR_NULL);
    if (id.p == NULL) {
        id = str_of(free_id(L, v));
    } else if (!plugin_name_valid(id)) {
        return luaL_error(L, "prompt: invalid id '%s'; use a name like 'commit-style'", id.p);
    }
    args_field(L, 1, "text");
    return add_prompt(L, id, lua_gettop(L), priority);
}

// ---- flag{} -------------------------------------------------------------------------------------

static const struct {
    const char *name;
    enum json_type type;
} flag_types[] = {
    {"boolean", JSON_BOOL}, {"string", JSON_STR}, {"integer", JSON_INT}, {"number", JSON_DOUBLE}};

static bool fits_flag(const struct json *v, size_t type)
{
    bool number = flag_types[type].type == JSON_DOUBLE && v != NULL && v->type == JSON_INT;
    return v != NULL && (v->type == flag_types[type].type || number);
}

/// The value of a flag; upvalues: its key, its type, its default.
static int l_flag_value(lua_State *L)
{
    const struct bind *b = bind_of(L);
    struct str key = str_of(lua_tostring(L, lua_upvalueindex(1)));
    size_t type = (size_t)lua_tointeger(L, lua_upvalueindex(2));
    const struct json *chosen = b->o.choice != NULL ? b->o.choice(b->o.choice_arg, key) : NULL;
    if (fits_flag(chosen, type)) {
        value_push(L, chosen);
    } else {
        lua_pushvalue(L, lua_upvalueindex(3));
    }
    return 1;
}

/// flag{name, type, default, description, short} -> a function that gives its value
static int l_flag(lua_State *L)
{
    static const char *const keys[] = {"name", "type", "default", "description", "short", NULL};
    const struct plugin__version *v = plugin__running(L, "flag");
    struct str name = offer_name(L, "flag", keys, "verbose");
    struct str said = offer_text(L, "flag", "type", STR("boolean"));
    size_t type = 0;
    while (type < ARRAY_LEN(flag_types) && !str_eqz(said, flag_types[type].name)) {
        type++;
    }
    if (type == ARRAY_LEN(flag_types)) {
        return luaL_error(L, "flag: type must be boolean, string, integer or number, not '%s'",
                          said.p);
    }
    struct args_scratch *s = args_scratch(L);
    struct json *def = NULL;
    bool given = args_field(L, 1, "default");
    if (!given && flag_types[type].type == JSON_BOOL) {
        lua_pop(L, 1);
        lua_pushboolean(L, 0);
        given = true;
    }
    int at = lua_gettop(L); // of the default
    if (given && (value_read(&def, &s->arena, L, at, NULL) < 0 || !fits_flag(def, type))) {
        return luaL_error(L, "flag: the default must be of type %s", flag_types[type].name);
    }
    struct jw w = {.out = &s->buf};
    jw_obj(&w);
    jw_kstrz(&w, "type", flag_types[type].name);
    jw_kvalue(&w, "default", def);
    jw_kstr(&w, "description", offer_text(L, "flag", "description", STR("")));
    jw_end_obj(&w);
    offer_add(L, &flag_kind, name, args_json(L, s, "flag", "the table"), offer_naming(L), 0);
    lua_pushfstring(L, "flags.%s.%s", v->unit->name, name.p);
    lua_pushinteger(L, (lua_Integer)type);
    lua_pushvalue(L, at);
    lua_pushcclosure(L, l_flag_value, 3);
    return 1;
}

// ---- the others ---------------------------------------------------------------------------------

/// preserve_ui(key)
int plugin__api_preserve(lua_State *L)
{
    struct str key = args_str(L, 1, "preserve_ui", "the key");
    if (key.n == 0 || key.n > 128) {
        return luaL_error(L, "preserve_ui: a key has 1 to 128 bytes");
    }
    const char *name = lua_pushfstring(L, "ui-key:%s", key.p);
    return offer_add(L, &key_kind, str_of(name), STR_NULL, GEN_NAME_PLAIN, 0);
}

/// ToolCall{} and ToolResult{}: a table of these fields and no others.
static int l_tool_call(lua_State *L)
{
    static const char *const keys[] = {"tool_name", "tool_call_id", "input", NULL};
    offer_check(L, "ToolCall", keys);
    args_field(L, 1, "tool_name");
    args_str(L, -1, "ToolCall", "tool_name");
    if (!args_field(L, 1, "input")) {
        lua_newtable(L);
        lua_setfield(L, 1, "input");
    }
    lua_settop(L, 1);
    return 1;
}

static int l_tool_result(lua_State *L)
{
    static const char *const keys[] = {"tool_name", "tool_call_id", "output",
                                       "success",   "error",        NULL};
    offer_check(L, "ToolResult", keys);
    if (!args_field(L, 1, "output")) {
        lua_pushliteral(L, "");
        lua_setfield(L, 1, "output");
    }
    if (!args_field(L, 1, "success")) {
        lua_pushboolean(L, !args_field(L, 1, "error"));
        lua_setfield(L, 1, "success");
    }
    lua_settop(L, 1);
    return 1;
}

void plugin__open_aliases(struct vm *vm)
{
    static const char *const names[] = {"state", "hooks", "loader"};
    lua_State *L = vm_main(vm);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        lua_getfield(L, -1, names[i]);
        lua_getfield(L, -2, "hub");
        lua_pushvalue(L, -2);
        lua_setfield(L, -2, names[i]);
        lua_pop(L, 1);
        lua_pushfstring(L, "hub.%s", names[i]);
        lua_insert(L, -2);
        lua_rawset(L, -3);
    }
    lua_pop(L, 1);
}

void plugin__open_api(struct vm *vm)
{
    static const luaL_Reg functions[] = {
        {"plugin", plugin__api_plugin},
        {"tool", offer_tool},
        {"provider", offer_provider},
        {"route", offer_route},
        {"command", offer_command},
        {"prompt", plugin__api_prompt},
        {"flag", l_flag},
        {"preserve_ui", plugin__api_preserve},
        {"response", offer_response},
        {"ToolCall", l_tool_call},
        {"ToolResult", l_tool_result},
    };
    static const luaL_Reg mcp[] = {{"tool", offer_tool},
                                   {"prompt", offer_mcp_prompt},
                                   {"resource", offer_mcp_resource},
                                   {"updated", offer_mcp_updated},
                                   {NULL, NULL}};
    lua_State *L = vm_main(vm);
    lua_pushglobaltable(L);
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        lua_pushcfunction(L, functions[i].func);
        lua_setfield(L, -2, functions[i].name);
    }
    luaL_newlib(L, mcp);
    lua_setfield(L, -2, "mcp");
    lua_pop(L, 1);
}
