// The packets of esbuild's service: a length, an id with the direction in its lowest bit, one value.
//
//     u32 length | u32 id << 1 | answer | value        value: u8 type, then what the type says; all little-endian
//
// Values are those of JSON with byte arrays and without fractions, so they are kept as struct json. What comes in is
// bounded by its packet, and every count is checked against the bytes that are left.

#include <assert.h>

#include "front/front_int.h"

enum { T_NULL, T_BOOL, T_INT, T_STR, T_BYTES, T_ARR, T_OBJ };
enum { DEPTH_MAX = 32 };

// ---- writing ----------------------------------------------------------------------------------

static void put32(struct buf *out, uint32_t n)
{
    const uint8_t le[4] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};
    buf_add(out, le, sizeof le);
}

static void put_str(struct buf *out, struct str s)
{
    put32(out, (uint32_t)s.n);
    buf_adds(out, s);
}

static void put(struct buf *out, const struct json *v, bool bytes)
{
    static const char types[] = {[JSON_NULL] = T_NULL, [JSON_BOOL] = T_BOOL, [JSON_INT] = T_INT,
                                 [JSON_STR] = T_STR,   [JSON_ARR] = T_ARR,   [JSON_OBJ] = T_OBJ};
    assert(v->type != JSON_DOUBLE);
    buf_addc(out, bytes && v->type == JSON_STR ? T_BYTES : types[v->type]);
    if (v->type == JSON_BOOL) {
        buf_addc(out, v->b ? 1 : 0);
    } else if (v->type == JSON_INT) {
        put32(out, (uint32_t)v->i);
    } else if (v->type == JSON_STR) {
        put_str(out, v->s);
    } else if (v->type == JSON_ARR || v->type == JSON_OBJ) {
        put32(out, v->n);
    }
    json_foreach_item (it, v) {
        put(out, it, false);
    }
    json_foreach_member (m, v) {
        put_str(out, m->key);
        put(out, &m->value, str_eqz(m->key, "contents"));
    }
}

void packet__write(struct buf *out, uint32_t id, bool is_request, const struct json *value)
{
    struct buf body = {.max = SIZE_MAX};
    put32(&body, id << 1 | (is_request ? 0 : 1));
    put(&body, value, false);
    put_str(out, buf_str(&body));
    buf_fini(&body);
}

// ---- reading ----------------------------------------------------------------------------------

static bool get32(struct str *in, uint32_t *out)
{
    const uint8_t *p = (const uint8_t *)in->p;
    if (in->n < 4) {
        return false;
    }
    *out = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    *in = str_from(*in, 4);
    return true;
}

static bool get_str(struct str *in, struct str *out)
{
    uint32_t n;
    if (!get32(in, &n) || n > in->n) {
        return false;
    }
    *out = (struct str){in->p, n};
    *in = str_from(*in, n);
    return true;
}

static bool get(struct str *in, struct arena *a, struct json *out, unsigned depth);

static bool get_children(struct str *in, struct arena *a, struct json *out, unsigned depth)
{
    bool ok = get32(in, &out->n) && out->n <= in->n && depth < DEPTH_MAX; // each takes a byte
    if (ok && out->type == JSON_ARR) {
        out->items = arena_calloc(a, out->n, sizeof *out->items);
    } else if (ok) {
        out->members = arena_calloc(a, out->n, sizeof *out->members);
    }
    for (uint32_t i = 0; ok && i < out->n; i++) {
        ok = out->type == JSON_ARR ? get(in, a, &out->items[i], depth + 1)
                                   : get_str(in, &out->members[i].key) &&
                                         get(in, a, &out->members[i].value, depth + 1);
    }
    return ok;
}

static bool get(struct str *in, struct arena *a, struct json *out, unsigned depth)
{
    uint32_t n;
    char type = in->n != 0 ? in->p[0] : (char)-1;
    *in = str_from(*in, 1);
    switch (type) {
    case T_NULL: out->type = JSON_NULL; return true;
    case T_BOOL:
        if (in->n == 0) {
            return false;
        }
        *out = (struct json){.type = JSON_BOOL, .b = in->p[0] != 0};
        *in = str_from(*in, 1);
        return true;
    case T_INT:
        out->type = JSON_INT;
        if (!get32(in, &n)) {
            return false;
        }
        out->i = (int32_t)n;
        return true;
    case T_STR:
    case T_BYTES: out->type = JSON_STR; return get_str(in, &out->s);
    case T_ARR:
    case T_OBJ:
        out->type = type == T_ARR ? JSON_ARR : JSON_OBJ;
        return get_children(in, a, out, depth);
    default: return false;
    }
}

bool packet__read(struct packet *out, struct arena *a, struct str body)
{
    uint32_t id;
    if (!get32(&body, &id)) {
        return false;
    }
    out->id = id >> 1;
    out->is_request = (id & 1) == 0;
    out->value = arena_calloc(a, 1, sizeof *out->value);
    return get(&body, a, out->value, 0) && body.n == 0;
}
