// Feed any bytes to the TOML parser. What it accepts is written out as TOML again, every value in
// line, and must be read back as the same tree. What it refuses must have a place inside the text.

#include <assert.h>
#include <math.h>

#include "base/buf.h"
#include "base/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// ---- writing ------------------------------------------------------------------------------

static void write_str(struct buf *b, struct str s)
{
    buf_addc(b, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c == 0x7F || c == '"' || c == '\\') {
            buf_addf(b, "\\u%04X", c);
        } else {
            buf_addc(b, (char)c);
        }
    }
    buf_addc(b, '"');
}

static void write_double(struct buf *b, double d)
{
    char z[64];
    snprintf(z, sizeof z, "%.17g", d);
    buf_addz(b, isnan(d) ? "nan" : z);
    buf_addz(b, isfinite(d) && strpbrk(z, ".e") == NULL ? ".0" : "");
}

static void write_value(struct buf *b, const struct toml *v);

static void write_members(struct buf *b, const struct toml *table, const char *between)
{
    toml_foreach (m, table) {
        buf_addz(b, m != table->members ? between : "");
        write_str(b, m->key);
        buf_addc(b, '=');
        write_value(b, &m->value);
    }
}

static void write_items(struct buf *b, const struct toml *arr)
{
    for (uint32_t i = 0; i < arr->n; i++) {
        write_value(b, &arr->items[i]);
        buf_addc(b, ',');
    }
}

static void write_value(struct buf *b, const struct toml *v)
{
    switch (v->type) {
    case TOML_STR: write_str(b, v->s); break;
    case TOML_INT: buf_addf(b, "%lld", (long long)v->i); break;
    case TOML_DOUBLE: write_double(b, v->d); break;
    case TOML_BOOL: buf_addz(b, v->b ? "true" : "false"); break;
    case TOML_ARR:
        buf_addc(b, '[');
        write_items(b, v);
        buf_addc(b, ']');
        break;
    case TOML_TABLE:
        buf_addc(b, '{');
        write_members(b, v, ",");
        buf_addc(b, '}');
        break;
    default: buf_adds(b, v->s); break;
    }
}

// ---- comparing ----------------------------------------------------------------------------

static bool same(const struct toml *a, const struct toml *b);

static bool same_children(const struct toml *a, const struct toml *b)
{
    bool ok = a->n == b->n;
    for (uint32_t i = 0; ok && i < a->n; i++) {
        ok = a->type == TOML_ARR ? same(&a->items[i], &b->items[i])
                                 : str_eq(a->members[i].key, b->members[i].key) &&
                                       same(&a->members[i].value, &b->members[i].value);
    }
    return ok;
}

static bool same(const struct toml *a, const struct toml *b)
{
    if (a->type != b->type) {
        return false;
    }
    switch (a->type) {
    case TOML_INT: return a->i == b->i;
    case TOML_DOUBLE: return isnan(a->d) ? isnan(b->d) : memcmp(&a->d, &b->d, sizeof a->d) == 0;
    case TOML_BOOL: return a->b == b->b;
    case TOML_ARR:
    case TOML_TABLE: return same_children(a, b);
    default: return str_eq(a->s, b->s);
    }
}

// ---- the target ---------------------------------------------------------------------------

static void check_again(const struct toml *first)
{
    struct arena a = {0};
    struct buf b;
    struct toml *again;
    struct err e;
    buf_init(&b, (size_t)64 << 20);
    write_members(&b, first, "\n");
    if (toml_parse(&again, &a, buf_str(&b), NULL, NULL, &e) < 0) {
        fprintf(stderr, "%s\n%s\n", e.msg, buf_z(&b));
        abort();
    }
    assert(same(first, again));
    buf_fini(&b);
    arena_fini(&a);
}

static void check_place(struct str text, uint32_t line, uint32_t col, const struct err *e)
{
    char place[64];
    for (; line > 1; line--) {
        ptrdiff_t stop = str_index(text, '\n');
        assert(stop >= 0);
        text = str_from(text, (size_t)stop + 1);
    }
    ptrdiff_t stop = str_index(text, '\n');
    assert(col >= 1 && col <= (stop < 0 ? text.n : (size_t)stop) + 1);
    assert(sscanf(e->msg, "line %*u, column %*u: %63[^\n]", place) == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct arena a = {0};
    struct toml *doc;
    struct err e;
    uint32_t line = 0, col = 0;
    if (toml_parse(&doc, &a, text, &line, &col, &e) == 0) {
        check_again(doc);
    } else {
        check_place(text, line, col, &e);
    }
    arena_fini(&a);
    return 0;
}
