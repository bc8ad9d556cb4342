// The short form of a schema for an object: {"sides": "integer", "label": "string?"}.
//
// The input comes from plugins. This file checks nothing: schema_check() reports a wrong property.

#include "base/json_int.h"
#include "base/schema.h"

static struct json text(struct str s)
{
    return (struct json){.type = JSON_STR, .s = s};
}

/// The type as written, for both forms of a property.
static struct str type_of(const struct json *v)
{
    return v->type == JSON_STR ? v->s : json_str(json_get(v, "type"), "");
}

static bool is_optional(const struct json *v)
{
    return str_ends(type_of(v), "?") || json_get(v, "default") != NULL;
}

/// One property of the short form: a text, or {type, description, enum, default}.
static struct json property_of(struct arena *a, const struct json *v)
{
    struct str type = type_of(v);
    type.n -= str_ends(type, "?");
    if (v->type == JSON_STR) {
        struct json_member *only = arena_calloc(a, 1, sizeof *only);
        *only = (struct json_member){STR("type"), text(type)};
        return (struct json){.type = JSON_OBJ, .n = 1, .members = only};
    }
    struct json copy = *json_clone(a, v);
    for (uint32_t i = 0; copy.type == JSON_OBJ && i < copy.n; i++) {
        struct json_member *m = &copy.members[i];
        if (str_eqz(m->key, "type") && m->value.type == JSON_STR) {
            m->value = text(type);
        } else if (str_eqz(m->key, "default") && m->value.type == JSON_OBJ && m->value.n == 0 &&
                   str_starts(type, "array")) {
            m->value = (struct json){.type = JSON_ARR}; // `{}` of Lua in the place of an empty list
        }
    }
    return copy;
}

struct json *schema_from_short(struct arena *a, const struct json *input)
{
    size_t n = json_members(input) != NULL ? input->n : 0;
    struct json properties = {.type = JSON_OBJ,
                              .members = arena_calloc(a, n, sizeof(struct json_member))};
    struct json required = {.type = JSON_ARR, .items = arena_calloc(a, n, sizeof(struct json))};
    json_foreach_member (m, input) {
        struct str key = arena_str(a, m->key);
        properties.members[properties.n++] = (struct json_member){key, property_of(a, &m->value)};
        if (!is_optional(&m->value)) {
            required.items[required.n++] = text(key);
        }
    }
    json_fold(&properties);
    const struct json_member members[] = {
        {STR("type"), text(STR("object"))},
        {STR("properties"), properties},
        {STR("required"), required},
        {STR("additionalProperties"), {.type = JSON_BOOL}},
    };
    struct json *schema = arena_calloc(a, 1, sizeof *schema);
    *schema = (struct json){.type = JSON_OBJ, .n = ARRAY_LEN(members)};
    schema->members = arena_alloc(a, sizeof members);
    memcpy(schema->members, members, sizeof members);
    return schema;
}
