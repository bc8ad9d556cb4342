// Fuzz base/json against itself and against jansson.
//
// Of every input: what we accept, jansson accepts with the same values, and what it accepts we
// accept, but for the differences that are known and named below. What we accept reads back equal
// after writing, compact and pretty. The same bytes as a string always make a JSON text.

// jansson and we use three names for different things; it is seen here under other ones.
#define JSON_NULL  JANSSON_NULL
#define json_type  jansson_type
#define json_equal jansson_equal
#include <jansson.h>
#undef JSON_NULL
#undef json_type
#undef json_equal

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_json: %s\n", what);
        abort();
    }
}

// ---- the same values ----------------------------------------------------------------------

static void same(const struct json *v, const json_t *j);

static bool same_string(struct str s, const json_t *j)
{
    return json_is_string(j) && s.n == json_string_length(j) &&
           memcmp(s.p, json_string_value(j), s.n) == 0;
}

static void same_items(const struct json *v, const json_t *j)
{
    demand(json_is_array(j) && json_array_size(j) == v->n, "another array");
    for (size_t i = 0; i < v->n; i++) {
        same(&v->items[i], json_array_get(j, i));
    }
}

static void same_members(const struct json *v, const json_t *j)
{
    demand(json_is_object(j) && json_object_size(j) == v->n, "another object");
    json_foreach_member (m, v) {
        char *key = str_dup(m->key);
        same(&m->value, json_object_get(j, key));
        free(key);
    }
}

static void same(const struct json *v, const json_t *j)
{
    demand(j != NULL, "a value is missing");
    switch (v->type) {
    case JSON_NULL: demand(json_typeof(j) == JANSSON_NULL, "no null"); break;
    case JSON_BOOL: demand(json_is_boolean(j) && json_is_true(j) == v->b, "another truth"); break;
    case JSON_INT: demand(json_is_integer(j) && json_integer_value(j) == v->i, "integer"); break;
    case JSON_DOUBLE: demand(json_is_real(j) && json_real_value(j) == v->d, "double"); break;
    case JSON_STR: demand(same_string(v->s, j), "another string"); break;
    case JSON_ARR: same_items(v, j); break;
    case JSON_OBJ: same_members(v, j); break;
    }
}

// ---- the same decision --------------------------------------------------------------------

/// jansson refuses integers beyond int64 and U+0000 in keys; we take both.
static bool refusal_is_known(const json_error_t *e)
{
    enum json_error_code code = json_error_code(e);
    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

/// jansson goes to depth 2048, and it drops a NUL byte that follows a number or a word.
static bool acceptance_is_known(struct str text, const struct err *e)
{
    return strstr(e->msg, "nested deeper") != NULL || memchr(text.p, '\0', text.n) != NULL;
}

static void compare(const struct json *v, const struct err *e, struct str text)
{
    json_error_t error;
    json_t *j = json_loadb(text.p, text.n,
                           JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (v != NULL && j != NULL) {
        same(v, j);
    } else if (v != NULL) {
        demand(refusal_is_known(&error), error.text);
    } else if (j != NULL) {
        demand(acceptance_is_known(text, e), e->msg);
    }
    json_decref(j);
}

// ---- writing ------------------------------------------------------------------------------

static void read_back(struct arena *a, const struct json *v, unsigned indent)
{
    struct json_opts opts = {.max_depth = JSON_DEPTH_MAX};
    struct json *again;
    struct err e;
    struct buf out;
    buf_init(&out, 1 << 26);
    json_write(&out, v, indent);
    demand(buf_ok(&out), "the text grew too large");
    demand(json_parse(&again, a, buf_str(&out), &opts, &e) == 0, e.msg);
    demand(json_equal(v, again), "it reads back as another value");
    buf_fini(&out);
}

static void write_as_string(struct arena *a, struct str bytes)
{
    struct json *v;
    struct err e;
    struct buf out;
    struct jw w;
    buf_init(&out, 1 << 26);
    jw_init(&w, &out);
    jw_str(&w, bytes);
    demand(json_parse(&v, a, buf_str(&out), NULL, &e) == 0, e.msg);
    demand(v->type == JSON_STR && v->s.n >= bytes.n, "a string lost bytes");
    buf_fini(&out);
}

static void fold_repeated(struct arena *a, const struct json *strict, struct str text)
{
    struct json_opts opts = {.max_depth = JSON_DEPTH_MAX, .dup = JSON_DUP_LAST};
    struct json *v;
    int rc = json_parse(&v, a, text, &opts, NULL);
    demand(strict == NULL || (rc == 0 && json_equal(strict, v)), "the policy changed a value");
    if (rc == 0) {
        read_back(a, v, 0); // strict again: nothing may be left twice
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct json_opts opts = {.max_depth = JSON_DEPTH_MAX};
    struct arena a = {0};
    struct json *v;
    struct err e = {0};
    int rc = json_parse(&v, &a, text, &opts, &e);
    demand((rc == 0) == (v != NULL), "result and code differ");
    compare(v, &e, text);
    if (v != NULL) {
        read_back(&a, v, 0);
        read_back(&a, v, 2);
    }
    fold_repeated(&a, v, text);
    write_as_string(&a, text);
    arena_fini(&a);
    return 0;
}
