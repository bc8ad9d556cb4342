// Values and streams of calls to JSON text.
//
// Two faces over the same put_ functions: json_write() walks a value, and struct jw lets code
// write a document as it goes, without building a value first. The bits of `is_obj` are the jw's
// stack; whole values written through it do not count there, so their depth is no concern.
//
// Whatever strings hold, the result is JSON in UTF-8: only what must be escaped is, and bytes that
// are no UTF-8 become U+FFFD. Numbers do not depend on the locale.

#include <assert.h>
#include <math.h>
#include <stdarg.h>

#include "base/json_int.h"
#include "base/time.h"

// ---- scalars ------------------------------------------------------------------------------

/// Write what json__plain_end() stopped at; returns how many bytes that were.
static size_t put_special(struct buf *out, const char *p, const char *end)
{
    static const char letter[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
        ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
    };
    unsigned char c = (unsigned char)*p;
    if (c >= 0x80) {
        size_t n = (size_t)(json__wide_end(p, end) - p);
        buf_adds(out, n != 0 ? (struct str){p, n} : STR("\xef\xbf\xbd"));
        return MAX(n, 1);
    }
    if (letter[c] != '\0') {
        buf_add(out, (char[]){'\\', letter[c]}, 2);
    } else {
        buf_addf(out, "\\u%04x", (unsigned)c);
    }
    return 1;
}

static void put_string(struct buf *out, struct str s)
{
    const char *p = s.n != 0 ? s.p : "", *end = p + s.n;
    buf_addc(out, '"');
    while (p < end) {
        const char *special = json__plain_end(p, end);
        buf_add(out, p, (size_t)(special - p));
        p = special;
        if (p < end) {
            p += put_special(out, p, end);
        }
    }
    buf_addc(out, '"');
}

static void put_uint(struct buf *out, bool negative, uint64_t u)
{
    char text[24], *p = text + sizeof text;
    do {
        *--p = (char)('0' + u % 10);
        u /= 10;
    } while (u != 0);
    if (negative) {
        *--p = '-';
    }
    buf_add(out, p, (size_t)(text + sizeof text - p));
}

static void put_int(struct buf *out, int64_t i)
{
    put_uint(out, i < 0, i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
}

static void put_double(struct buf *out, double d)
{
    char text[64];
    if (!isfinite(d)) {
        buf_addz(out, "null");
        return;
    }
    int digits = 15;
    do {
        snprintf(text, sizeof text, "%.*g", digits, d);
    } while (strtod(text, NULL) != d && ++digits <= 17);
    size_t before = strspn(text, "-0123456789"), n = strcspn(text + before, "e0123456789");
    if (n != 0) { // the decimal point of the locale, whatever it is
        char *rest = text + before + n;
        text[before] = '.';
        memmove(text + before + 1, rest, strlen(rest) + 1);
    }
    buf_addz(out, text);
    if (strpbrk(text, ".e") == NULL) {
        buf_addz(out, ".0"); // so that it reads back as a double
    }
}

// ---- values -------------------------------------------------------------------------------

static void put_newline(struct buf *out, unsigned indent, unsigned level)
{
    if (indent != 0) {
        buf_addf(out, "\n%*s", (int)(indent * level), "");
    }
}

static void put_value(struct buf *out, const struct json *v, unsigned indent, unsigned level);

static void put_container(struct buf *out, const struct json *v, unsigned indent, unsigned level)
{
    bool object = v->type == JSON_OBJ;
    buf_addc(out, object ? '{' : '[');
    for (size_t i = 0; i < v->n; i++) {
        if (i != 0) {
            buf_addc(out, ',');
        }
        put_newline(out, indent, level + 1);
        if (object) {
            struct str key = v->members[i].key;
            put_string(out, key.n != 0 && key.p[0] == JSON_INTEGER_KEY ? str_from(key, 1) : key);
            buf_addz(out, indent != 0 ? ": " : ":");
        }
        put_value(out, object ? &v->members[i].value : &v->items[i], indent, level + 1);
    }
    if (v->n != 0) {
        put_newline(out, indent, level);
    }
    buf_addc(out, object ? '}' : ']');
}

static void put_value(struct buf *out, const struct json *v, unsigned indent, unsigned level)
{
    switch (v != NULL ? v->type : JSON_NULL) {
    case JSON_NULL: buf_addz(out, "null"); break;
    case JSON_BOOL: buf_addz(out, v->b ? "true" : "false"); break;
    case JSON_INT: put_int(out, v->i); break;
    case JSON_DOUBLE: put_double(out, v->d); break;
    case JSON_STR: put_string(out, v->s); break;
    case JSON_ARR:
    case JSON_OBJ: put_container(out, v, indent, level); break;
    }
}

// ---- the stream ---------------------------------------------------------------------------

static bool in_object(const struct jw *w)
{
    unsigned top = w->depth - 1U;
    return w->depth != 0 && (w->is_obj[top / 64] >> (top % 64) & 1) != 0;
}

static void begin_value(struct jw *w)
{
    assert(w->after_key == in_object(w));
    assert(w->depth != 0 || !w->need_comma); // one text, one value
    if (w->need_comma && !w->after_key) {
        buf_addc(w->out, ',');
    }
    w->after_key = false;
    w->need_comma = true;
}

static void open_container(struct jw *w, bool object, char bracket)
{
    begin_value(w);
    assert(w->depth < 64 * ARRAY_LEN(w->is_obj));
    uint64_t bit = UINT64_C(1) << (w->depth % 64), *word = &w->is_obj[w->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    w->depth++;
    w->need_comma = false;
    buf_addc(w->out, bracket);
}

static void close_container(struct jw *w, bool object, char bracket)
{
    assert(w->depth != 0 && in_object(w) == object && !w->after_key);
    w->depth--;
    w->need_comma = true;
    buf_addc(w->out, bracket);
}

void jw_init(struct jw *w, struct buf *out)
{
    *w = (struct jw){.out = out};
}

void jw_obj(struct jw *w)
{
    open_container(w, true, '{');
}

void jw_end_obj(struct jw *w)
{
    close_container(w, true, '}');
}

void jw_arr(struct jw *w)
{
    open_container(w, false, '[');
}

void jw_end_arr(struct jw *w)
{
    close_container(w, false, ']');
}

void jw_key(struct jw *w, const char *key)
{
    jw_key_str(w, str_of(key));
}

void jw_key_str(struct jw *w, struct str key)
{
    assert(in_object(w) && !w->after_key);
    if (w->need_comma) {
        buf_addc(w->out, ',');
    }
    put_string(w->out, key);
    buf_addc(w->out, ':');
    w->after_key = true;
}

void jw_null(struct jw *w)
{
    jw_raw(w, STR("null"));
}

void jw_bool(struct jw *w, bool b)
{
    jw_raw(w, b ? STR("true") : STR("false"));
}

void jw_int(struct jw *w, int64_t i)
{
    begin_value(w);
    put_int(w->out, i);
}

void jw_uint(struct jw *w, uint64_t u)
{
    begin_value(w);
    put_uint(w->out, false, u);
}

void jw_double(struct jw *w, double d)
{
    begin_value(w);
    put_double(w->out, d);
}

void jw_str(struct jw *w, struct str s)
{
    begin_value(w);
    put_string(w->out, s);
}

void jw_strz(struct jw *w, const char *z)
{
    if (z == NULL) {
        jw_null(w);
    } else {
        jw_str(w, str_of(z));
    }
}

void jw_strf(struct jw *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    jw_str(w, str_of(text));
    free(text);
}

void jw_value(struct jw *w, const struct json *v)
{
    begin_value(w);
    put_value(w->out, v, 0, 0);
}

void jw_raw(struct jw *w, struct str json)
{
    begin_value(w);
    buf_adds(w->out, json);
}

void jw_kobj(struct jw *w, const char *key)
{
    jw_key(w, key);
    jw_obj(w);
}

void jw_karr(struct jw *w, const char *key)
{
    jw_key(w, key);
    jw_arr(w);
}

void jw_kvalue(struct jw *w, const char *key, const struct json *v)
{
    jw_key(w, key);
    jw_value(w, v);
}

void jw_kbool(struct jw *w, const char *key, bool b)
{
    jw_key(w, key);
    jw_bool(w, b);
}

void jw_kint(struct jw *w, const char *key, int64_t i)
{
    jw_key(w, key);
    jw_int(w, i);
}

void jw_kstr(struct jw *w, const char *key, struct str s)
{
    jw_key(w, key);
    jw_str(w, s);
}

void jw_kstrz(struct jw *w, const char *key, const char *z)
{
    jw_key(w, key);
    jw_strz(w, z);
}

void jw_ktext(struct jw *w, const char *key, struct str text)
{
    jw_key(w, key);
    if (text.n != 0) {
        jw_str(w, text);
    } else {
        jw_null(w);
    }
}

void jw_ktime(struct jw *w, const char *key, int64_t ms)
{
    char text[TIME_TEXT];
    jw_kstrz(w, key, ms != 0 ? time_format(ms, text) : NULL);
}

void jw_kint_or_null(struct jw *w, const char *key, bool known, int64_t i)
{
    jw_key(w, key);
    if (known) {
        jw_int(w, i);
    } else {
        jw_null(w);
    }
}

void jw_kstrs(struct jw *w, const char *key, const char *const *p, size_t n)
{
    jw_karr(w, key);
    for (size_t i = 0; i < n; i++) {
        jw_strz(w, p[i]);
    }
    jw_end_arr(w);
}

void json_write(struct buf *out, const struct json *v, unsigned indent)
{
    put_value(out, v, indent, 0);
}
