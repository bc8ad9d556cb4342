// Absent members filled in from a schema's defaults.
//
// A parsed value is shared and must not change, so whatever has something to fill in is copied, from there
// up to the root, and the rest is the old value itself. An absent object is not invented for the sake of
// the defaults inside it: the schema gives it a default of its own, or it stays absent.

#include "base/schema.h"

/// A copy of an object with room for `more` members.
static struct json *copy_object(const struct json *obj, size_t more, struct arena *a)
{
    struct json *copy = arena_alloc(a, sizeof *copy);
    *copy = *obj;
    copy->members = arena_alloc(a, (obj->n + more) * sizeof *copy->members);
    if (obj->n != 0) {
        memcpy(copy->members, obj->members, obj->n * sizeof *copy->members);
    }
    return copy;
}

static void put(struct json *obj, struct str key, const struct json *v)
{
    for (uint32_t i = 0; i < obj->n; i++) {
        if (str_eq(obj->members[i].key, key)) {
            obj->members[i].value = *v;
            return;
        }
    }
    obj->members[obj->n++] = (struct json_member){key, *v};
}

static const struct json *fill_object(const struct json *schema, const struct json *value,
                                      struct arena *a)
{
    const struct json *properties = json_get(schema, "properties");
    struct json *copy = NULL; // made for the first that differs
    json_foreach_member (m, properties) {
        const struct json *old = json_get_str(value, m->key);
        const struct json *v = old != NULL ? old : json_get(&m->value, "default");
        v = schema_defaults(&m->value, v, a);
        if (v != old) {
            copy = copy != NULL ? copy : copy_object(value, properties->n, a);
            put(copy, m->key, v);
        }
    }
    return copy != NULL ? copy : value;
}

static const struct json *fill_array(const struct json *schema, const struct json *value,
                                     struct arena *a)
{
    const struct json *items = json_get(schema, "items");
    struct json *copy = NULL;
    for (uint32_t i = 0; i < value->n && items != NULL; i++) {
        const struct json *v = schema_defaults(items, &value->items[i], a);
        if (v != &value->items[i] && copy == NULL) {
            copy = arena_alloc(a, sizeof *copy);
            *copy = *value;
            copy->items = arena_alloc(a, value->n * sizeof *copy->items);
            memcpy(copy->items, value->items, value->n * sizeof *copy->items);
        }
        if (copy != NULL) {
            copy->items[i] = *v;
        }
    }
    return copy != NULL ? copy : value;
}

const struct json *schema_defaults(const struct json *schema, const struct json *value,
                                   struct arena *a)
{
    if (value == NULL || (value->type != JSON_OBJ && value->type != JSON_ARR)) {
        return value;
    }
    return value->type == JSON_OBJ ? fill_object(schema, value, a) : fill_array(schema, value, a);
}
