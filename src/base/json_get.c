// Reading parsed JSON: getters that answer "absent" instead of failing, and comparison.
//
// The values come from outside, so nothing here assumes a shape: every function takes NULL and any type, which
// lets callers write json_int(json_ptr(v, "/usage/total"), 0).

#include <assert.h>

#include "base/json.h"

/// An integer, or a double that is one and fits.
static bool to_int(const struct json *v, int64_t *out)
{
    if (v != NULL && v->type == JSON_INT) {
        *out = v->i;
        return true;
    }
    if (v == NULL || v->type != JSON_DOUBLE || !(v->d >= -0x1p63 && v->d < 0x1p63) ||
        (double)(int64_t)v->d != v->d) {
        return false;
    }
    *out = (int64_t)v->d;
    return true;
}

// ---- pointers -----------------------------------------------------------------------------

/// Is a pointer's token, with ~0 for '~' and ~1 for '/', the key `key`?
static bool token_is_key(struct str token, struct str key)
{
    size_t k = 0;
    for (size_t t = 0; t < token.n; t++, k++) {
        char c = token.p[t];
        if (c == '~') {
            if (++t == token.n || (token.p[t] != '0' && token.p[t] != '1')) {
                return false;
            }
            c = "~/"[token.p[t] - '0'];
        }
        if (k == key.n || key.p[k] != c) {
            return false;
        }
    }
    return k == key.n;
}

static const struct json *step_into_object(const struct json *obj, struct str token)
{
    json_foreach_member (m, obj) {
        if (token_is_key(token, m->key)) {
            return &m->value;
        }
    }
    return NULL;
}

// ---- comparison ---------------------------------------------------------------------------

static int compare_keys(const void *a, const void *b)
{
    const struct json_member *x = a, *y = b;
    return str_cmp(x->key, y->key);
}

/// A copy of the members, sorted; the caller frees it.
static struct json_member *sort_members(const struct json_member *m, size_t n)
{
    struct json_member *sorted = xreallocarray(NULL, n, sizeof *sorted);
    memcpy(sorted, m, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_keys);
    return sorted;
}

/// Sorting keeps this from being quadratic when the order differs.
static bool equal_sorted(const struct json_member *a, const struct json_member *b, size_t n)
{
    struct json_member *x = sort_members(a, n), *y = sort_members(b, n);
    size_t same = 0;
    while (same < n && str_eq(x[same].key, y[same].key) &&
           json_equal(&x[same].value, &y[same].value)) {
        same++;
    }
    free(x);
    free(y);
    return same == n;
}

static bool equal_objects(const struct json *a, const struct json *b)
{
    size_t n = a->n;
    if (n != b->n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const struct json_member *x = &a->members[i], *y = &b->members[i];
        if (!str_eq(x->key, y->key)) {
            return equal_sorted(x, y, n - i);
        }
        if (!json_equal(&x->value, &y->value)) {
            return false;
        }
    }
    return true;
}

static bool equal_arrays(const struct json *a, const struct json *b)
{
    if (a->n != b->n) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (!json_equal(&a->items[i], &b->items[i])) {
            return false;
        }
    }
    return true;
}

static bool is_number(const struct json *v)
{
    return v->type == JSON_INT || v->type == JSON_DOUBLE;
}

// ---- public -------------------------------------------------------------------------------

const struct json *json_get(const struct json *obj, const char *key)
{
    return json_get_str(obj, str_of(key));
}

const struct json *json_get_str(const struct json *obj, struct str key)
{
    json_foreach_member (m, obj) {
        if (str_eq(m->key, key)) {
            return &m->value;
        }
    }
    return NULL;
}

const struct json *json_at(const struct json *arr, size_t i)
{
    return arr != NULL && arr->type == JSON_ARR && i < arr->n ? &arr->items[i] : NULL;
}

const struct json *json_ptr(const struct json *v, const char *pointer)
{
    struct str rest = str_of(pointer);
    while (v != NULL && rest.n != 0) {
        if (rest.p[0] != '/') {
            return NULL;
        }
        rest = str_from(rest, 1);
        ptrdiff_t slash = str_index(rest, '/');
        struct str token = {rest.p, slash < 0 ? rest.n : (size_t)slash};
        rest = str_from(rest, token.n);
        if (v->type == JSON_ARR) {
            uint64_t i;
            bool padded = token.n > 1 && token.p[0] == '0';
            v = !padded && str_to_u64(token, &i) ? json_at(v, i) : NULL;
        } else {
            v = step_into_object(v, token);
        }
    }
    return v;
}

struct str json_str(const struct json *v, const char *fallback)
{
    return v != NULL && v->type == JSON_STR ? v->s : str_of(fallback);
}

struct str json_get_text(const struct json *obj, const char *key)
{
    return json_str(json_get(obj, key), "");
}

int64_t json_int(const struct json *v, int64_t fallback)
{
    int64_t i;
    return to_int(v, &i) ? i : fallback;
}

double json_double(const struct json *v, double fallback)
{
    if (v == NULL || !is_number(v)) {
        return fallback;
    }
    return v->type == JSON_INT ? (double)v->i : v->d;
}

bool json_bool(const struct json *v, bool fallback)
{
    return v != NULL && v->type == JSON_BOOL ? v->b : fallback;
}

const char *json_type_name(const struct json *v)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",     [JSON_BOOL] = "boolean", [JSON_INT] = "integer",
        [JSON_DOUBLE] = "number", [JSON_STR] = "string",   [JSON_ARR] = "array",
        [JSON_OBJ] = "object",
    };
    assert(v == NULL || (size_t)v->type < ARRAY_LEN(names));
    return v != NULL ? names[v->type] : "absent";
}

bool json_equal(const struct json *a, const struct json *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    if (is_number(a) && is_number(b)) {
        // Integers are compared as such: above 2^53 doubles would call different ones equal.
        int64_t x, y;
        if (to_int(a, &x)) {
            return to_int(b, &y) && x == y;
        }
        return b->type == JSON_DOUBLE && a->d == b->d;
    }
    if (a->type != b->type) {
        return false;
    }
    switch (a->type) {
    case JSON_BOOL: return a->b == b->b;
    case JSON_STR: return str_eq(a->s, b->s);
    case JSON_ARR: return equal_arrays(a, b);
    case JSON_OBJ: return equal_objects(a, b);
    default: return true; // null
    }
}

static void copy_into(struct arena *a, struct json *to, const struct json *v)
{
    *to = *v;
    if (v->type == JSON_STR) {
        to->s = arena_str(a, v->s);
    } else if (v->type == JSON_ARR) {
        to->items = arena_calloc(a, v->n, sizeof *to->items);
        for (size_t i = 0; i < v->n; i++) {
            copy_into(a, &to->items[i], &v->items[i]);
        }
    } else if (v->type == JSON_OBJ) {
        to->members = arena_calloc(a, v->n, sizeof *to->members);
        for (size_t i = 0; i < v->n; i++) {
            to->members[i].key = arena_str(a, v->members[i].key);
            copy_into(a, &to->members[i].value, &v->members[i].value);
        }
    }
}

struct json *json_clone(struct arena *a, const struct json *v)
{
    struct json *copy = v != NULL ? arena_alloc(a, sizeof *copy) : NULL;
    if (copy != NULL) {
        copy_into(a, copy, v);
    }
    return copy;
}

struct json *json_with(struct arena *a, const struct json *obj, struct str key,
                       const struct json *value)
{
    struct json *out = arena_calloc(a, 1, sizeof *out);
    size_t n = json_members(obj) != NULL ? obj->n : 0;
    bool found = false;
    out->type = JSON_OBJ;
    out->members = arena_calloc(a, n + 1, sizeof *out->members);
    json_foreach_member (it, obj) {
        bool same = str_eq(it->key, key);
        found = found || same;
        if (!same || value != NULL) {
            out->members[out->n++] = (struct json_member){it->key, same ? *value : it->value};
        }
    }
    if (!found && value != NULL) {
        out->members[out->n++] = (struct json_member){key, *value};
    }
    assert(out->n <= n + 1);
    return out;
}
