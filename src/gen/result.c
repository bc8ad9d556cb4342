// What tools answer, brought into one form whoever runs them.

#include "gen/result.h"

/// A value as the model reads it.
static struct str text_of(struct arena *a, const struct json *v)
{
    struct buf text;
    if (v == NULL || v->type == JSON_NULL) {
        return STR("");
    }
    if (v->type == JSON_STR) {
        return v->s;
    }
    buf_init(&text, SIZE_MAX);
    json_write(&text, v, 0);
    struct str s = arena_str(a, buf_str(&text));
    buf_fini(&text);
    return s;
}

struct json *gen_result_new(struct arena *a, struct str output, bool success, struct str error)
{
    struct json *v = arena_calloc(a, 1, sizeof *v);
    v->type = JSON_OBJ;
    v->members = arena_calloc(a, 3, sizeof *v->members);
    v->members[v->n++] = (struct json_member){STR("output"), {.type = JSON_STR, .s = output}};
    v->members[v->n++] = (struct json_member){STR("success"), {.type = JSON_BOOL, .b = success}};
    if (error.p != NULL) {
        v->members[v->n++] = (struct json_member){STR("error"), {.type = JSON_STR, .s = error}};
    }
    return v;
}

struct json *gen_result_of(struct arena *a, const struct json *v)
{
    const struct json *output = json_get(v, "output"), *error = json_get(v, "error");
    if (output == NULL) {
        return gen_result_new(a, text_of(a, v), true, STR_NULL);
    }
    bool failed = error != NULL && error->type != JSON_NULL;
    return gen_result_new(a, text_of(a, output), json_bool(json_get(v, "success"), !failed),
                          failed ? text_of(a, error) : STR_NULL);
}
