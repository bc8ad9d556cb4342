#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

// ---- values -------------------------------------------------------------------------------

enum json_type { JSON_NULL, JSON_BOOL, JSON_INT, JSON_DOUBLE, JSON_STR, JSON_ARR, JSON_OBJ };

/// One value of a parsed or built document. Lives in an arena; strings that needed no unescaping
/// point into the parsed text, which must outlive the value. Children are stored side by side.
struct json {
    enum json_type type;
    uint32_t n; // elements or members, 0 for everything else
    union {
        bool b;
        int64_t i;
        double d;
        struct str s; // decoded, strict UTF-8, may hold U+0000 (never NUL-terminated)
        struct json *items;
        struct json_member *members;
    };
};

/// In values from a language whose tables have integers as keys, such a key is this byte and the digits. No UTF-8 text
/// contains the byte. Only the digits are written.
#define JSON_INTEGER_KEY '\xFF'

struct json_member {
    struct str key;
    struct json value;
};

// ---- parsing ------------------------------------------------------------------------------

/// What to do with a key that an object has twice: refuse the text, or keep the first place and
/// the last value, as most readers do.
enum json_dup { JSON_DUP_REJECT, JSON_DUP_LAST };

enum { JSON_DEPTH = 128, JSON_DEPTH_MAX = 1024 };

struct json_opts {
    unsigned max_depth; // 0 means JSON_DEPTH; above JSON_DEPTH_MAX is the caller's bug
    enum json_dup dup;
};

/// Parse exactly one JSON text (RFC 8259): strict UTF-8, no BOM, no trailing bytes, lone surrogate
/// escapes refused, numbers that do not fit a double refused (too small ones become 0), integers
/// without fraction or exponent that fit kept as int64, longer ones as double. `opts` may be NULL
/// (depth JSON_DEPTH, duplicates refused).
/// Returns 0, or a negative code with `*out` NULL and `e` (may be NULL) saying what is wrong in
/// which line and column, counted in characters from 1. Time is linear in `text.n`. On failure the
/// values built so far stay in the arena.
int json_parse(struct json **out, struct arena *a, struct str text, const struct json_opts *opts,
               struct err *e) MUST_CHECK;

// ---- reading: every getter takes NULL and the wrong type, and then answers "absent" --------

/// A member or an element; NULL when absent.
const struct json *json_get(const struct json *obj, const char *key);
const struct json *json_get_str(const struct json *obj, struct str key);
const struct json *json_at(const struct json *arr, size_t i);
/// RFC 6901 pointer: "/a/b~1c/0"; "" is the value itself. A malformed pointer finds nothing.
const struct json *json_ptr(const struct json *v, const char *pointer);
/// The value, or `fallback` (may be NULL). A double without a fraction counts as an integer.
struct str json_str(const struct json *v, const char *fallback);
/// The text of member `key`; "" when there is none.
struct str json_get_text(const struct json *obj, const char *key);
int64_t json_int(const struct json *v, int64_t fallback);
double json_double(const struct json *v, double fallback);
bool json_bool(const struct json *v, bool fallback);
/// "null", "boolean", "integer", "number", "string", "array", "object"; "absent" for NULL.
const char *json_type_name(const struct json *v);
/// Same value: members in any order, 1 == 1.0.
bool json_equal(const struct json *a, const struct json *b);
/// A copy with strings of its own, NUL-terminated; NULL of NULL.
struct json *json_clone(struct arena *a, const struct json *v);
/// Make the keys of `obj`, an object that was built and not parsed, unique in place: a repeated key keeps its first place
/// and its last value. Returns whether there was one. Linear time.
bool json_fold(struct json *obj);
/// A copy of the object `obj` (NULL, or anything else: an empty one) in which `key` is `value`, in its old place or at the
/// end; without `key` when `value` is NULL. Only the object itself is copied: the rest stays where it is.
struct json *json_with(struct arena *a, const struct json *obj, struct str key,
                       const struct json *value);

// Bounds for the loops below: both NULL for what is not an array (not an object).
static inline const struct json *json_items(const struct json *v)
{
    return v != NULL && v->type == JSON_ARR ? v->items : NULL;
}

static inline const struct json *json_items_end(const struct json *v)
{
    const struct json *first = json_items(v);
    return first != NULL ? first + v->n : NULL;
}

static inline const struct json_member *json_members(const struct json *v)
{
    return v != NULL && v->type == JSON_OBJ ? v->members : NULL;
}

static inline const struct json_member *json_members_end(const struct json *v)
{
    const struct json_member *first = json_members(v);
    return first != NULL ? first + v->n : NULL;
}

/// Walk the children; NULL and the wrong type have none.
#define json_foreach_item(it, arr)                                                                 \
    for (const struct json *it = json_items(arr), *it##_end = json_items_end(arr); it < it##_end;  \
         it++)
#define json_foreach_member(it, obj)                                                               \
    for (const struct json_member *it = json_members(obj), *it##_end = json_members_end(obj);      \
         it < it##_end; it++)

// ---- writing ------------------------------------------------------------------------------

/// Streaming writer to a buffer. It writes commas and colons itself; misuse (a value where a key is due,
/// unbalanced ends, more than 256 open containers) asserts. Bad UTF-8 in strings becomes U+FFFD, a
/// non-finite double becomes null. A full buffer shows in buf_ok().
struct jw {
    struct buf *out; // borrowed
    uint16_t depth;  // containers open
    bool need_comma;
    bool after_key;
    uint64_t is_obj[4]; // bit per depth: object or array
};

/// Begin writing to `out`, which stays the caller's.
void jw_init(struct jw *w, struct buf *out);
/// Open and close an object or an array; write a key.
void jw_obj(struct jw *w);
void jw_end_obj(struct jw *w);
void jw_arr(struct jw *w);
void jw_end_arr(struct jw *w);
void jw_key(struct jw *w, const char *key);
void jw_key_str(struct jw *w, struct str key);
/// Write a value. jw_double() uses the fewest of 15 to 17 digits that read back the same, jw_strz() and
/// jw_value() write null for NULL, jw_raw() takes a complete JSON value as text.
void jw_null(struct jw *w);
void jw_bool(struct jw *w, bool b);
void jw_int(struct jw *w, int64_t i);
void jw_uint(struct jw *w, uint64_t u);
void jw_double(struct jw *w, double d);
void jw_str(struct jw *w, struct str s);
void jw_strz(struct jw *w, const char *z);
void jw_strf(struct jw *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void jw_value(struct jw *w, const struct json *v);
void jw_raw(struct jw *w, struct str json);
/// A key and its value.
void jw_kobj(struct jw *w, const char *key);
void jw_karr(struct jw *w, const char *key);
void jw_kvalue(struct jw *w, const char *key, const struct json *v);
void jw_kbool(struct jw *w, const char *key, bool b);
void jw_kint(struct jw *w, const char *key, int64_t i);
void jw_kstr(struct jw *w, const char *key, struct str s);
void jw_kstrz(struct jw *w, const char *key, const char *z);
/// A text, null when it is empty; a time in milliseconds since 1970 as RFC 3339, null when it is 0.
void jw_ktext(struct jw *w, const char *key, struct str text);
void jw_ktime(struct jw *w, const char *key, int64_t ms);
/// A number, null when it is not `known`.
void jw_kint_or_null(struct jw *w, const char *key, bool known, int64_t i);
/// A key and an array of `n` strings.
void jw_kstrs(struct jw *w, const char *key, const char *const *p, size_t n);

/// Write `v` (NULL writes null) to `out`; `indent` 0 is compact, else pretty with that many spaces.
void json_write(struct buf *out, const struct json *v, unsigned indent);
