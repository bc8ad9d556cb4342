// JSON text to values in an arena (RFC 8259, strict).
//
//     text ──> parse_value ──> leaf ─────────────────────> values (stack)
//                  │                                          │ at ']' and '}'
//                  └──> parse_array, parse_object ──> arena <─┘ copied side by side
//
// The number of children of a container is known only at its end. So children are pushed on two stacks, one of
// values and one of keys, shared by all levels; the closing bracket copies its own into the arena and pops them. Strings without escapes are not copied at all.
//
// Invariants:
//   - the text is read through [p, end) only; it needs no NUL at its end and may hold NULs.
//   - recursion is as deep as `max_depth`, which cannot be above JSON_DEPTH_MAX.
//   - every function that fails has filled in the error; the first failure ends the parse.
//   - a text has fewer than 2^32 bytes, so counts of children fit their field.
//
// Not done here: comments, trailing commas, NaN and other additions; streaming of half a text.

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>

#include "base/json_int.h"
#include "base/vec.h"

struct json_key {
    const char *at; // its opening quote, for messages
    struct str name;
};

struct json_parser {
    const char *start, *p, *end;
    struct arena *arena;
    unsigned depth, max_depth;
    enum json_dup dup;
    vec(struct json) values;   // finished children of the containers that are open
    vec(struct json_key) keys; // the same for keys of objects
    struct json__keys unique;
    struct err *e; // may be NULL
};

// ---- failing and stepping -----------------------------------------------------------------

PRINTF_LIKE(3, 4) static int fail(struct json_parser *p, const char *at, const char *fmt, ...)
{
    size_t line = 1, column = 1;
    for (const char *s = p->start; s < at; s++) {
        if (*s == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*s & 0xc0) != 0x80) {
            column++;
        }
    }
    char what[80];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(p->e, ERR_PARSE, "line %zu, column %zu: %s%s", line, column, what,
                   at == p->end ? " but the text ends" : "");
}

/// The next byte after white space, or NUL at the end (which no caller looks for).
static char peek(struct json_parser *p)
{
    while (p->p < p->end) {
        char c = *p->p;
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
            return c;
        }
        p->p++;
    }
    return '\0';
}

static bool take(struct json_parser *p, char c)
{
    bool there = peek(p) == c;
    p->p += there;
    return there;
}

// ---- strings ------------------------------------------------------------------------------

/// Copy up to the next backslash. `*to` has room for all that is left of the source.
static const char *copy_plain(char **to, const char *s, const char *end)
{
    char *t = *to;
#if defined(__SSE2__)
    for (; end - s >= 16; s += 16, t += 16) {
        __m128i v = json__load16(s);
        int hit = _mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
        _mm_storeu_si128((__m128i *)(void *)t, v);
        if (hit != 0) {
            int n = __builtin_ctz((unsigned)hit);
            *to = t + n;
            return s + n;
        }
    }
#endif
    while (s < end && *s != '\\') {
        *t++ = *s++;
    }
    *to = t;
    return s;
}

/// The value of four hexadecimal digits, or -1.
static int32_t hex4(const char *s, const char *end)
{
    int32_t v = 0;
    if (end - s < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)s[i], low = c | 0x20;
        if (c >= '0' && c <= '9') {
            v = v * 16 + c - '0';
        } else if (low >= 'a' && low <= 'f') {
            v = v * 16 + low - 'a' + 10;
        } else {
            return -1;
        }
    }
    return v;
}

/// One \u escape, or two that make a surrogate pair. Returns what follows, NULL on failure.
static const char *unescape_hex(struct json_parser *p, const char *s, const char *end, char **to)
{
    int32_t cp = hex4(s + 2, end);
    if (cp < 0) {
        fail(p, s, "invalid escape");
        return NULL;
    }
    const char *next = s + 6;
    if (cp >= 0xd800 && cp <= 0xdfff) {
        bool pair = cp < 0xdc00 && end - next >= 2 && next[0] == '\\' && next[1] == 'u';
        int32_t low = pair ? hex4(next + 2, end) : -1;
        if (low < 0xdc00 || low > 0xdfff) {
            fail(p, s, "lone surrogate");
            return NULL;
        }
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        next += 6;
    }
    *to += utf8_encode((uint32_t)cp, *to);
    return next;
}

/// Decode [s, end), which is never shorter than what comes out of it.
static int unescape(struct json_parser *p, const char *s, const char *end, struct str *out)
{
    static const char simple[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    char *start = arena_alloc(p->arena, (size_t)(end - s)), *to = start;
    while ((s = copy_plain(&to, s, end)) < end) {
        unsigned char c = (unsigned char)s[1]; // is there: the scan stepped over whole escapes
        if (c != 'u' && simple[c] == '\0') {
            return fail(p, s, "invalid escape");
        }
        if (c != 'u') {
            *to++ = simple[c];
            s += 2;
        } else if ((s = unescape_hex(p, s, end, &to)) == NULL) {
            return ERR_PARSE;
        }
    }
    *out = (struct str){start, (size_t)(to - start)};
    return 0;
}

/// Find the closing quote from `*s` on; on the way everything but the escapes is checked.
static int scan_string(struct json_parser *p, const char **s, bool *escaped)
{
    *escaped = false;
    for (;;) {
        *s = json__plain_end(*s, p->end);
        if (*s == p->end || (**s == '\\' && p->end - *s < 2)) {
            return fail(p, p->p, "string is not closed");
        }
        unsigned char c = (unsigned char)**s;
        if (c == '"') {
            return 0;
        }
        if (c == '\\') {
            *escaped = true;
            *s += 2;
        } else if (c < 0x20) {
            return fail(p, *s, "control character in a string");
        } else {
            const char *wide = *s;
            *s = json__wide_end(wide, p->end);
            if (*s == wide) {
                return fail(p, wide, "invalid UTF-8");
            }
        }
    }
}

static int parse_string(struct json_parser *p, struct str *out)
{
    const char *start = p->p + 1, *s = start;
    bool escaped;
    int rc = scan_string(p, &s, &escaped);
    if (rc == 0 && escaped) {
        rc = unescape(p, start, s, out);
    } else if (rc == 0) {
        *out = (struct str){start, (size_t)(s - start)};
    }
    p->p = s + 1; // not used after a failure
    return rc;
}

// ---- numbers ------------------------------------------------------------------------------

/// A number as it is written: whole.frac * 10^exp.
struct decimal {
    bool negative, integer; // `integer`: neither fraction nor exponent
    struct str whole, frac;
    int64_t exp;
};

static struct str take_digits(struct json_parser *p)
{
    const char *start = p->p;
    while (p->p < p->end && *p->p >= '0' && *p->p <= '9') {
        p->p++;
    }
    return (struct str){start, (size_t)(p->p - start)};
}

static bool take_if(struct json_parser *p, char a, char b)
{
    bool there = p->p < p->end && (*p->p == a || *p->p == b);
    p->p += there;
    return there;
}

static int scan_number(struct json_parser *p, struct decimal *d)
{
    const char *start = p->p;
    *d = (struct decimal){.negative = take_if(p, '-', '-'), .integer = true};
    d->whole = take_digits(p);
    bool good = d->whole.n == 1 || (d->whole.n > 1 && d->whole.p[0] != '0');
    if (good && take_if(p, '.', '.')) {
        d->integer = false;
        d->frac = take_digits(p);
        good = d->frac.n != 0;
    }
    if (good && take_if(p, 'e', 'E')) {
        d->integer = false;
        bool minus = p->p < p->end && *p->p == '-';
        take_if(p, '+', '-');
        struct str digits = take_digits(p);
        for (size_t i = 0; i < digits.n; i++) { // stops far beyond what 2^32 digits could undo
            d->exp = MIN(d->exp * 10 + (digits.p[i] - '0'), INT64_C(1000000000000));
        }
        d->exp = minus ? -d->exp : d->exp;
        good = digits.n != 0;
    }
    return good ? 0 : fail(p, start, "invalid number");
}

/// All digits as one integer; exact up to 19 of them.
static uint64_t decimal_digits(const struct decimal *d)
{
    uint64_t v = 0;
    for (size_t i = 0; i < d->whole.n; i++) {
        v = v * 10 + (uint64_t)(d->whole.p[i] - '0');
    }
    for (size_t i = 0; i < d->frac.n; i++) {
        v = v * 10 + (uint64_t)(d->frac.p[i] - '0');
    }
    return v;
}

static bool decimal_int(const struct decimal *d, int64_t *out)
{
    if (!d->integer || d->whole.n > 19) {
        return false;
    }
    uint64_t v = decimal_digits(d);
    if (v > (uint64_t)INT64_MAX + d->negative) {
        return false;
    }
    *out = (int64_t)(d->negative ? 0 - v : v);
    return true;
}

/// When digits and power of ten are both exact as doubles, one operation rounds correctly.
static bool decimal_short(const struct decimal *d, double *out)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int64_t exp = d->exp - (int64_t)d->frac.n;
    if (FLT_EVAL_METHOD != 0 || d->whole.n + d->frac.n > 19 || exp < -22 || exp > 22) {
        return false;
    }
    uint64_t v = decimal_digits(d);
    if (v > UINT64_C(1) << DBL_MANT_DIG) {
        return false;
    }
    *out = exp < 0 ? (double)v / tens[-exp] : (double)v * tens[exp];
    return true;
}

/// The significant digits for strtod(): no point, so that no locale matters, and no more than can
/// change the result. A border between two doubles has at most 767 digits; of what follows,
/// only whether all of it is zero counts.
enum { SIGNIFICANT = 800 };

struct significant {
    char text[SIGNIFICANT + 16];
    size_t n;
    int64_t point; // the number is 0.text * 10^point
    bool more;     // a digit other than 0 was left out
};

static void significant_add(struct significant *s, struct str digits)
{
    for (size_t i = 0; i < digits.n; i++) {
        if (s->n == 0 && digits.p[i] == '0') {
            s->point--;
        } else if (s->n < SIGNIFICANT) {
            s->text[s->n++] = digits.p[i];
        } else {
            s->more = s->more || digits.p[i] != '0';
        }
    }
}

static double decimal_long(const struct decimal *d)
{
    struct significant s = {.point = d->exp + (int64_t)d->whole.n};
    significant_add(&s, d->whole);
    significant_add(&s, d->frac);
    if (s.n == 0) {
        return 0;
    }
    if (s.more) {
        s.text[s.n++] = '1';
    }
    int64_t exp = MAX(MIN(s.point - (int64_t)s.n, 9999), -9999);
    snprintf(s.text + s.n, sizeof s.text - s.n, "e%d", (int)exp);
    return strtod(s.text, NULL);
}

static int parse_number(struct json_parser *p, struct json *v)
{
    const char *start = p->p;
    struct decimal d;
    int rc = scan_number(p, &d);
    if (rc < 0) {
        return rc;
    }
    *v = (struct json){.type = JSON_INT};
    if (decimal_int(&d, &v->i)) {
        return 0;
    }
    double magnitude;
    if (!decimal_short(&d, &magnitude)) {
        magnitude = decimal_long(&d);
    }
    if (isinf(magnitude)) {
        return fail(p, start, "number is too large");
    }
    *v = (struct json){.type = JSON_DOUBLE, .d = d.negative ? -magnitude : magnitude};
    return 0;
}

// ---- containers and values ----------------------------------------------------------------

static int parse_value(struct json_parser *p, struct json *v);

static int parse_item(struct json_parser *p)
{
    struct json v;
    int rc = parse_value(p, &v);
    if (rc == 0) {
        vec_push(&p->values, v);
    }
    return rc;
}

/// The elements of a container, from its opening bracket to `close`.
static int parse_list(struct json_parser *p, char close, int (*one)(struct json_parser *p))
{
    if (p->depth == p->max_depth) {
        return fail(p, p->p, "nested deeper than %u levels", p->max_depth);
    }
    int rc = 0;
    p->depth++;
    p->p++;
    if (!take(p, close)) {
        do {
            rc = one(p);
        } while (rc == 0 && take(p, ','));
        if (rc == 0 && !take(p, close)) {
            rc = fail(p, p->p, "expected ',' or '%c'", close);
        }
    }
    p->depth--;
    return rc;
}

static int parse_array(struct json_parser *p, struct json *v)
{
    size_t first = p->values.n;
    int rc = parse_list(p, ']', parse_item);
    if (rc < 0) {
        return rc;
    }
    size_t n = p->values.n - first;
    *v = (struct json){.type = JSON_ARR, .n = (uint32_t)n};
    if (n != 0) {
        v->items = arena_alloc(p->arena, n * sizeof *v->items);
        memcpy(v->items, p->values.p + first, n * sizeof *v->items);
        p->values.n = first;
    }
    return 0;
}

static int parse_member(struct json_parser *p)
{
    if (peek(p) != '"') {
        return fail(p, p->p, "expected a key in quotes");
    }
    struct json_key key = {.at = p->p};
    int rc = parse_string(p, &key.name);
    if (rc < 0) {
        return rc;
    }
    vec_push(&p->keys, key);
    return take(p, ':') ? parse_item(p) : fail(p, p->p, "expected ':'");
}

/// Bring the keys from `first_key` on and the values from `first` on together in the arena.
static int close_object(struct json_parser *p, struct json *v, size_t first_key, size_t first)
{
    size_t n = p->values.n - first, dup;
    assert(p->keys.n - first_key == n);
    *v = (struct json){.type = JSON_OBJ};
    if (n == 0) {
        return 0;
    }
    const struct json_key *keys = p->keys.p + first_key;
    v->members = arena_alloc(p->arena, n * sizeof *v->members);
    for (size_t i = 0; i < n; i++) {
        v->members[i] = (struct json_member){keys[i].name, p->values.p[first + i]};
    }
    v->n = (uint32_t)json__keys_fold(&p->unique, v->members, n, &dup);
    if (dup < n && p->dup == JSON_DUP_REJECT) {
        return fail(p, keys[dup].at, "duplicate key");
    }
    p->keys.n = first_key;
    p->values.n = first;
    return 0;
}

static int parse_object(struct json_parser *p, struct json *v)
{
    size_t first_key = p->keys.n, first = p->values.n;
    int rc = parse_list(p, '}', parse_member);
    return rc < 0 ? rc : close_object(p, v, first_key, first);
}

static int parse_word(struct json_parser *p, struct json *v, struct str word, struct json value)
{
    if ((size_t)(p->end - p->p) < word.n || memcmp(p->p, word.p, word.n) != 0) {
        return fail(p, p->p, "expected a value");
    }
    p->p += word.n;
    *v = value;
    return 0;
}

static int parse_value(struct json_parser *p, struct json *v)
{
    char c = peek(p);
    switch (c) {
    case '{': return parse_object(p, v);
    case '[': return parse_array(p, v);
    case '"': *v = (struct json){.type = JSON_STR}; return parse_string(p, &v->s);
    case 'n': return parse_word(p, v, STR("null"), (struct json){.type = JSON_NULL});
    case 't': return parse_word(p, v, STR("true"), (struct json){.type = JSON_BOOL, .b = true});
    case 'f': return parse_word(p, v, STR("false"), (struct json){.type = JSON_BOOL});
    default: break;
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        return parse_number(p, v);
    }
    return fail(p, p->p, "expected a value");
}

int json_parse(struct json **out, struct arena *a, struct str text, const struct json_opts *opts,
               struct err *e)
{
    static const struct json_opts usual = {0};
    *out = NULL;
    opts = opts != NULL ? opts : &usual;
    assert(opts->max_depth <= JSON_DEPTH_MAX);
    if (text.n >= UINT32_MAX) {
        return err_set(e, ERR_TOO_LARGE, "text is longer than 4 GiB");
    }

    const char *start = text.p != NULL ? text.p : "";
    struct json_parser p = {.start = start,
                            .p = start,
                            .end = start + text.n,
                            .arena = a,
                            .max_depth = opts->max_depth != 0 ? opts->max_depth : JSON_DEPTH,
                            .dup = opts->dup,
                            .e = e};
    struct json *v = arena_alloc(a, sizeof *v);
    int rc = parse_value(&p, v);
    peek(&p);
    if (rc == 0 && p.p != p.end) {
        rc = fail(&p, p.p, "expected the end of the text");
    }
    if (rc == 0) {
        assert(p.values.n == 0 && p.keys.n == 0 && p.depth == 0);
        *out = v;
    }
    vec_fini(&p.values);
    vec_fini(&p.keys);
    json__keys_fini(&p.unique);
    return rc;
}
