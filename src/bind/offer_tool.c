// tool{}: what a tool says of itself, and what it answers.
//
//     input = {sides = "integer", label = "string?"}      the short form, made into a JSON Schema
//     input_schema = {...}                                the whole one
//
// Whatever a tool returns becomes one result {output: text, success, error?}: a text, number or boolean
// is the output; a table is JSON, or the result itself when it holds `output`; nil and a message is a
// failure.

#include <lauxlib.h>

#include "base/schema.h"
#include "bind/offer.h"
#include "gen/result.h"

// ---- the schema -----------------------------------------------------------------------------------

/// With `check = false` the schema may say anything: clients get it as it is, and the tool looks at its input itself.
static bool is_checked(lua_State *L)
{
    bool off = args_field(L, 1, "check") && !lua_toboolean(L, -1);
    lua_pop(L, 1);
    return !off;
}

/// The schema of the tool's input; NULL: it takes anything. `*checked` becomes false when it says more than we check.
static const struct json *read_schema(lua_State *L, struct args_scratch *s, bool *checked)
{
    struct json *schema = offer_value(L, "tool", "input_schema", &s->arena);
    struct json *input = offer_value(L, "tool", "input", &s->arena);
    struct err e = {0};
    for (uint32_t i = 0; schema != NULL && schema->type == JSON_OBJ && i < schema->n; i++) {
        struct json *v = &schema->members[i].value;
        if (str_eqz(schema->members[i].key, "required") && v->type == JSON_OBJ && v->n == 0) {
            *v = (struct json){.type = JSON_ARR}; // `required = {}` is meant as an empty list
        }
    }
    if (schema != NULL && input != NULL) {
        luaL_error(L, "tool: give 'input' or 'input_schema', not both");
    }
    if (input != NULL) {
        if (input->type != JSON_OBJ) {
            luaL_error(L, "tool: input must be a table of names and types");
        }
        schema = schema_from_short(&s->arena, input);
        offer_sort(schema);
    }
    int rc = *checked ? schema_check(schema, &e) : 0;
    *checked = *checked && rc != ERR_UNSUPPORTED;
    if (rc < 0 && *checked) {
        luaL_error(L, "tool: %s", e.msg);
    }
    return schema;
}

// ---- tool{} ---------------------------------------------------------------------------------------

static void write_about(lua_State *L, struct args_scratch *s, bool override)
{
    static const char *const modes[] = {"allow", "ask", "deny", NULL};
    static const char *const extras[] = {"annotations", "output_schema", "title"}; // for MCP alone
    struct str permission = offer_text(L, "tool", "permission", STR_NULL);
    if (permission.p != NULL) {
        luaL_checkoption(L, -1, NULL, modes);
    }
    bool checked = is_checked(L);
    const struct json *schema = read_schema(L, s, &checked);
    struct jw w = {.out = &s->buf};
    jw_obj(&w);
    jw_kstr(&w, "description", offer_text(L, "tool", "description", STR("")));
    jw_key(&w, "input_schema");
    if (schema != NULL) {
        jw_value(&w, schema);
    } else {
        jw_raw(&w, STR("{\"type\":\"object\"}"));
    }
    if (permission.p != NULL) {
        jw_kstr(&w, "permission", permission);
    }
    if (override) {
        jw_kbool(&w, "override", true);
    }
    if (!checked) {
        jw_kbool(&w, "unchecked", true);
    }
    for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
        const struct json *v = offer_value(L, "tool", extras[i], &s->arena);
        if (v != NULL) {
            jw_kvalue(&w, extras[i], v);
        }
    }
    jw_end_obj(&w);
}

int offer_tool(lua_State *L)
{
    static const char *const keys[] = {"name",          "title",    "description", "input",
                                       "input_schema",  "override", "permission",  "annotations",
                                       "output_schema", "check",    "run",         NULL};
    struct str name = offer_name(L, "tool", keys, "roll-dice");
    struct args_scratch *s = args_scratch(L);
    bool override = args_field(L, 1, "override") && lua_toboolean(L, -1);
    write_about(L, s, override);
    return offer_add(L, &offer_tool_kind, name, args_json(L, s, "tool", "the table"),
                     override ? GEN_NAME_OVERRIDE : GEN_NAME_PLAIN, offer_fn(L, "tool", "run"));
}

// ---- results --------------------------------------------------------------------------------------

int offer_tool_read(struct offer_job *j, lua_State *L, int n, const struct json **out,
                    struct err *e)
{
    struct json *v = NULL, *why = NULL;
    struct arena *a = &j->arena;
    if (n == 0) {
        lua_pushnil(L);
    }
    int rc = value_read(&v, a, L, 1, e);
    if (rc == 0 && n > 1 && lua_isnil(L, 1) && lua_type(L, 2) == LUA_TSTRING) {
        rc = value_read(&why, a, L, 2, e);
    }
    if (rc < 0) {
        return rc;
    }
    *out = why != NULL ? gen_result_new(a, STR(""), false, why->s) : gen_result_of(a, v);
    return 0;
}
