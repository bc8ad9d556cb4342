// The results of tools in one form, whatever runs them.

#include "gen/result.h"

#include <assert.h>

/// A value as the model reads it.
static struct str text_of(struct arena *a, const struct json *v)
{
    struct buf text = {.max = SIZE_MAX};
    if (v == NULL || v->type == JSON_NULL) {
        return STR("");
    }
    if (v->type == JSON_STR) {
        return v->s;
    }
    json_write(&text, v, 0);
    struct str s = arena_str(a, buf_str(&text));
    buf_fini(&text);
    return s;
}

/// The texts of content blocks, as lines; what is no text is named by its type.
static struct str text_of_blocks(struct arena *a, const struct json *content)
{
    struct buf text = {.max = SIZE_MAX};
    json_foreach_item (block, content) {
        struct str type = json_str(json_get(block, "type"), "content");
        bool is_text = str_eqz(type, "text");
        buf_addz(&text, text.n != 0 ? "\n" : "");
        if (is_text) {
            buf_adds(&text, json_get_text(block, "text"));
        } else {
            buf_addf(&text, "[" STR_FMT "]", STR_ARG(type));
        }
    }
    struct str s = arena_str(a, buf_str(&text));
    buf_fini(&text);
    return s;
}

enum { MEMBERS_MAX = 5 };

static void put(struct json *result, const char *key, const struct json *v)
{
    assert(result->n < MEMBERS_MAX);
    result->members[result->n++] = (struct json_member){str_of(key), *v};
}

struct json *gen_result_new(struct arena *a, struct str output, bool success, struct str error)
{
    struct json *v = arena_calloc(a, 1, sizeof *v);
    v->type = JSON_OBJ;
    v->members = arena_calloc(a, MEMBERS_MAX, sizeof *v->members);
    put(v, "output", &(struct json){.type = JSON_STR, .s = output});
    put(v, "success", &(struct json){.type = JSON_BOOL, .b = success});
    if (error.p != NULL) {
        put(v, "error", &(struct json){.type = JSON_STR, .s = error});
    }
    return v;
}

struct json *gen_result_of(struct arena *a, const struct json *v)
{
    const struct json *output = json_get(v, "output"), *error = json_get(v, "error");
    const struct json *content = json_get(v, "content"), *structured = json_get(v, "structured");
    bool blocks = content != NULL && content->type == JSON_ARR;
    if (output == NULL && !blocks) {
        return gen_result_new(a, text_of(a, v), true, STR_NULL);
    }
    bool failed = error != NULL && error->type != JSON_NULL;
    struct str text = output != NULL ? text_of(a, output) : text_of_blocks(a, content);
    struct json *r = gen_result_new(a, text, json_bool(json_get(v, "success"), !failed),
                                    failed ? text_of(a, error) : STR_NULL);
    if (blocks) {
        put(r, "content", content);
    }
    if (structured != NULL && structured->type == JSON_OBJ) {
        put(r, "structured", structured);
    }
    return r;
}
