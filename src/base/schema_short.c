// The short form of a schema for an object: {"sides": "integer", "label": "string?"}.

#include <assert.h>

#include "base/schema.h"

/// "integer?" as type and whether it may be left out.
static struct str cut_optional(struct str type, bool *optional)
{
    if (str_ends(type, "?")) {
        *optional = true;
        type.n--;
    }
    return type;
}

/// Is this member of a property `{}` in the place of an empty list: the default of an array?
static bool is_empty_list(const struct json *property, const struct json_member *m)
{
    return str_eqz(m->key, "default") && m->value.type == JSON_OBJ && m->value.n == 0 &&
           str_starts(json_str(json_get(property, "type"), ""), "array");
}

/// One property of the short form: a text, or {type, description, enum, default}.
static void write_property(struct jw *w, const struct json *v, bool *optional)
{
    if (v->type == JSON_STR) {
        jw_obj(w);
        jw_kstr(w, "type", cut_optional(v->s, optional));
        jw_end_obj(w);
        return;
    }
    if (v->type != JSON_OBJ) {
        jw_value(w, v); // schema_check() says what is wrong with it
        return;
    }
    *optional = json_get(v, "default") != NULL;
    jw_obj(w);
    json_foreach_member (m, v) {
        jw_key_str(w, m->key);
        if (is_empty_list(v, m)) {
            jw_arr(w);
            jw_end_arr(w);
        } else if (str_eqz(m->key, "type") && m->value.type == JSON_STR) {
            jw_str(w, cut_optional(m->value.s, optional));
        } else {
            jw_value(w, &m->value);
        }
    }
    jw_end_obj(w);
}

static bool is_optional(const struct json *v)
{
    struct str type = v->type == JSON_STR ? v->s : json_str(json_get(v, "type"), "");
    return str_ends(type, "?") || json_get(v, "default") != NULL;
}

/// The short form as a schema, as text.
static void write_short(struct jw *w, const struct json *input)
{
    jw_obj(w);
    jw_kstrz(w, "type", "object");
    jw_kobj(w, "properties");
    json_foreach_member (m, input) {
        bool optional = false;
        jw_key_str(w, m->key);
        write_property(w, &m->value, &optional);
    }
    jw_end_obj(w);
    jw_karr(w, "required");
    json_foreach_member (m, input) {
        if (!is_optional(&m->value)) {
            jw_str(w, m->key);
        }
    }
    jw_end_arr(w);
    jw_kbool(w, "additionalProperties", false);
    jw_end_obj(w);
}

struct json *schema_from_short(struct arena *a, const struct json *input)
{
    struct buf text = {.max = SIZE_MAX};
    struct json *schema = NULL;
    struct jw w = {.out = &text};
    write_short(&w, input);
    int rc = json_parse(&schema, a, arena_str(a, buf_str(&text)), NULL, NULL);
    assert(rc == 0); // we wrote it
    (void)rc;
    buf_fini(&text);
    return schema;
}
