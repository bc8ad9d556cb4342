// Values completed by a schema: absent members filled in from its defaults, empty objects made arrays.
//
// A parsed value is shared and must not change, so whatever has something to fill in is copied, from there
// up to the root, and the rest is the old value itself. An absent object is not invented for the sake of
// the defaults inside it: the schema gives it a default of its own, or it stays absent.

#include "base/schema.h"

/// One value that is completed. What takes more than SCHEMA_STEPS is left as it is; schema_fit() refuses it.
struct filling {
    struct arena *a;
    size_t left;
};

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

static void replace(struct json *obj, struct str key, const struct json *v)
{
    for (uint32_t i = 0; i < obj->n; i++) {
        if (str_eq(obj->members[i].key, key)) {
            obj->members[i].value = *v;
            return;
        }
    }
}

/// How the value at one place is completed; returns it or a copy.
typedef const struct json *fill_fn(const struct json *schema, const struct json *value,
                                   struct filling *f);

static const struct json *fill_object(const struct json *schema, const struct json *value,
                                      struct filling *f, fill_fn *fill)
{
    const struct json *properties = json_get(schema, "properties");
    struct json *copy = NULL; // made for the first that differs
    size_t names = properties != NULL ? properties->n : 0;
    f->left -= MIN(names / 4 + names * value->n / 64, f->left);
    if (f->left == 0) {
        return value;
    }
    json_foreach_member (m, properties) {
        const struct json *old = json_get_str(value, m->key);
        const struct json *v = fill(&m->value, old, f);
        if (v != old) {
            copy = copy != NULL ? copy : copy_object(value, properties->n, f->a);
            if (old != NULL) {
                replace(copy, m->key, v);
            } else {
                copy->members[copy->n++] = (struct json_member){m->key, *v};
            }
        }
    }
    return copy != NULL ? copy : value;
}

static const struct json *fill_array(const struct json *schema, const struct json *value,
                                     struct filling *f, fill_fn *fill)
{
    const struct json *items = json_get(schema, "items");
    struct json *copy = NULL;
    for (uint32_t i = 0; i < value->n && items != NULL; i++) {
        const struct json *v = fill(items, &value->items[i], f);
        if (v != &value->items[i] && copy == NULL) {
            copy = arena_alloc(f->a, sizeof *copy);
            *copy = *value;
            copy->items = arena_alloc(f->a, value->n * sizeof *copy->items);
            memcpy(copy->items, value->items, value->n * sizeof *copy->items);
        }
        if (copy != NULL) {
            copy->items[i] = *v;
        }
    }
    return copy != NULL ? copy : value;
}

static const struct json *fill_inside(const struct json *schema, const struct json *value,
                                      struct filling *f, fill_fn *fill)
{
    if (value == NULL || f->left == 0 || (value->type != JSON_OBJ && value->type != JSON_ARR)) {
        return value;
    }
    f->left--;
    return value->type == JSON_OBJ ? fill_object(schema, value, f, fill)
                                   : fill_array(schema, value, f, fill);
}

static const struct json *fill_default(const struct json *schema, const struct json *value,
                                       struct filling *f)
{
    const struct json *v = value != NULL ? value : json_get(schema, "default");
    return fill_inside(schema, v, f, fill_default);
}

/// Does the schema take an array and no object?
static bool wants_array(const struct json *schema)
{
    const struct json *type = json_get(schema, "type");
    bool array = str_eqz(json_str(type, ""), "array"), object = false;
    json_foreach_item (one, type) {
        array |= str_eqz(json_str(one, ""), "array");
        object |= str_eqz(json_str(one, ""), "object");
    }
    return array && !object;
}

static const struct json *fill_empty(const struct json *schema, const struct json *value,
                                     struct filling *f)
{
    static const struct json none = {.type = JSON_ARR};
    bool empty = value != NULL && value->type == JSON_OBJ && value->n == 0;
    return empty && wants_array(schema) ? &none : fill_inside(schema, value, f, fill_empty);
}

const struct json *schema_defaults(const struct json *schema, const struct json *value,
                                   struct arena *a)
{
    return fill_inside(schema, value, &(struct filling){a, SCHEMA_STEPS}, fill_default);
}

const struct json *schema_arrays(const struct json *schema, const struct json *value,
                                 struct arena *a)
{
    return fill_empty(schema, value, &(struct filling){a, SCHEMA_STEPS});
}
