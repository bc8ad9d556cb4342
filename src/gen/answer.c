// The answer of a route.

#include "gen/answer.h"

#include <string.h>

#define TEXT "text/plain; charset=utf-8"
#define JSON "application/json"

/// `v` as JSON text in `arena`.
static struct str text_of(struct arena *arena, const struct json *v)
{
    struct buf out = {.max = SIZE_MAX};
    json_write(&out, v, 0);
    struct str text = arena_str(arena, buf_str(&out));
    buf_fini(&out);
    return text;
}

/// Add a header if its name is one and its value breaks no line.
static int add_header(struct gen_answer *a, struct arena *arena, struct str name,
                      const struct json *v, struct err *e)
{
    if (a->n == GEN_HEADERS) {
        return err_set(e, ERR_TOO_LARGE, "an answer has at most %d headers", GEN_HEADERS);
    }
    struct str value = v->type == JSON_STR ? arena_str(arena, v->s) : text_of(arena, v);
    bool ok = name.n != 0 && v->type != JSON_OBJ && v->type != JSON_ARR && v->type != JSON_NULL;
    for (size_t i = 0; i < name.n && ok; i++) {
        char c = name.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
    }
    for (size_t i = 0; i < value.n && ok; i++) {
        ok = ((unsigned char)value.p[i] >= ' ' || value.p[i] == '\t') && value.p[i] != 0x7f;
    }
    if (!ok) {
        return err_set(e, ERR_INVALID, "an answer cannot have the header '" STR_FMT "' like this",
                       STR_ARG(name));
    }
    a->headers[a->n++] = (struct gen_pair){arena_str(arena, name), value};
    return 0;
}

int gen_answer_status(struct gen_answer *a, int64_t status, struct err *e)
{
    if (status < 200 || status > 599) {
        return err_set(e, ERR_INVALID, "a status is 200 to 599, not %lld", (long long)status);
    }
    a->status = (int)status;
    return 0;
}

int gen_answer_headers(struct gen_answer *a, struct arena *arena, const struct json *headers,
                       struct err *e)
{
    int rc = 0;
    if (headers->type != JSON_OBJ && headers->n != 0) {
        return err_set(e, ERR_INVALID, "headers must be a table of names and values");
    }
    json_foreach_member (m, headers) {
        const struct json *one = m->value.type == JSON_ARR ? m->value.items : &m->value;
        size_t n = m->value.type == JSON_ARR ? m->value.n : 1;
        for (size_t i = 0; i < n && rc == 0; i++) {
            rc = add_header(a, arena, m->key, &one[i], e);
        }
    }
    return rc;
}

int gen_answer_body(struct gen_answer *a, struct str body, const char *type, struct err *e)
{
    bool typed = false;
    for (size_t i = 0; i < a->n; i++) {
        typed = typed || str_caseeqz(a->headers[i].name, "content-type");
    }
    a->body = body;
    if (body.n != 0 && !typed && a->n < GEN_HEADERS) {
        a->headers[a->n++] = (struct gen_pair){STR("content-type"), str_of(type)};
    }
    return body.n != 0 && (a->status == 204 || a->status == 304)
               ? err_set(e, ERR_INVALID, "an answer with status %d has no body", a->status)
               : 0;
}

int gen_answer_read(struct gen_answer *a, struct arena *arena, const struct json *value,
                    struct err *e)
{
    const struct json *status = json_get(value, "status"), *headers = json_get(value, "headers"),
                      *body = json_get(value, "body");
    if (value == NULL || value->type == JSON_NULL) {
        return gen_answer_status(a, 204, e);
    }
    if (status == NULL || status->type != JSON_INT) {
        a->status = 200;
        return gen_answer_body(a, text_of(arena, value), JSON, e);
    }
    int rc = gen_answer_status(a, status->i, e);
    if (rc == 0 && headers != NULL && headers->type != JSON_NULL) {
        rc = gen_answer_headers(a, arena, headers, e);
    }
    if (rc < 0 || body == NULL || body->type == JSON_NULL) {
        return rc;
    }
    return body->type == JSON_STR ? gen_answer_body(a, arena_str(arena, body->s), TEXT, e)
                                  : gen_answer_body(a, text_of(arena, body), JSON, e);
}
