// Calling an operation: parameters checked against its row, the handler found in a table, one answer.

#include "api/op.h"

#include <assert.h>
#include <stdarg.h>

#include "api/handlers.h"
#include "api/page.h"

// a forgotten handler is a link error
static op_fn *const handlers[OP__COUNT] = {
#define OP(id, ...) [OP_##id] = op_##id,
#include "proto/ops.def"
#undef OP
};

void op_run(struct api *api, struct op_call *c)
{
    assert(c->id < OP__COUNT && !c->answered);
    c->api = api;
    if ((ops[c->id].flags & OP_PAGES) == 0 || page_check(c)) {
        handlers[c->id](api, c);
    }
}

void op_answer(struct op_call *c, int status, struct str json)
{
    assert(!c->answered); // an operation answers once
    c->answered = true;
    if ((ops[c->id].flags & OP_PAGES) != 0) {
        json = page_cut(c, json);
    }
    c->face->answer(c, status, "application/json", json);
}

struct jw *op_begin(struct op_call *c)
{
    assert(!c->answered && c->out.p == NULL); // one answer at a time
    buf_init(&c->out, SIZE_MAX);
    jw_init(&c->w, &c->out);
    return &c->w;
}

void op_end(struct op_call *c, int status)
{
    struct buf out = c->out; // the face frees the call
    assert(c->w.depth == 0 && out.n != 0);
    op_answer(c, status, buf_str(&out));
    buf_fini(&out);
}

struct jw *op_begin_obj(struct op_call *c)
{
    jw_obj(op_begin(c));
    return &c->w;
}

void op_end_obj(struct op_call *c, int status)
{
    jw_end_obj(&c->w);
    op_end(c, status);
}

void op_answer_text(struct op_call *c, const char *content_type, struct str text)
{
    assert(!c->answered);
    c->answered = true;
    c->face->answer(c, 200, content_type, text);
}

void op_fail(struct op_call *c, enum problem p, const char *hint, const char *fmt, ...)
{
    va_list ap;
    char text[1024];
    assert(!c->answered && p < PROBLEM__COUNT);
    c->answered = true;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->face->fail(c, p, str_of(text), hint);
}

void op_answer_stream(struct op_call *c, const struct event_filter *f, uint64_t after)
{
    assert(!c->answered && (ops[c->id].flags & (OP_STREAMS | OP_MAY_STREAM)) != 0);
    c->answered = true;
    c->face->stream(c, f, after);
}

// ---- parameters ----------------------------------------------------------------------------

enum { NAMED = 40 }; // parameters of one operation that may be meant

static bool fits(char type, const struct json *v)
{
    switch (type) {
    case 's': return v->type == JSON_STR;
    case 'i': return v->type == JSON_INT;
    case 'n': return v->type == JSON_INT || v->type == JSON_DOUBLE;
    case 'b': return v->type == JSON_BOOL;
    case 'a': return v->type == JSON_ARR;
    case 'o': return v->type == JSON_OBJ;
    default: return true;
    }
}

static bool fail(struct op_fault *f, enum problem p, const char *fmt, ...) PRINTF_LIKE(3, 4);
static bool fail(struct op_fault *f, enum problem p, const char *fmt, ...)
{
    va_list ap;
    f->problem = p;
    va_start(ap, fmt);
    vsnprintf(f->detail, sizeof f->detail, fmt, ap);
    va_end(ap);
    return false;
}

static bool fail_unknown(const struct op *op, struct str name, struct op_fault *f)
{
    char names[NAMED][32];
    const char *candidates[NAMED];
    size_t n = 0;
    struct op_param p;
    struct str rest = str_of(op->params);
    while (n < ARRAY_LEN(names) && op_next_param(op, &rest, &p)) {
        snprintf(names[n], sizeof names[n], STR_FMT, STR_ARG(p.name));
        candidates[n] = names[n];
        n++;
    }
    const char *nearest = str_nearest(name, candidates, n);
    if (nearest != NULL) {
        snprintf(f->hint, sizeof f->hint, "did you mean '%s'?", nearest);
    }
    return fail(f, PROBLEM_UNKNOWN_FIELD, "unknown field '%.*s'", (int)MIN(name.n, 64), name.p);
}

bool op_check_params(enum op_id id, enum op_caller by, const struct json *params,
                     struct op_fault *fault)
{
    assert(id < OP__COUNT && (params == NULL || params->type == JSON_OBJ));
    const struct op *op = &ops[id];
    struct op_param p;
    struct str rest = str_of(op->params);
    *fault = (struct op_fault){0};
    if (params != NULL) {
        json_foreach_member (m, params) {
            bool known = false;
            for (struct str all = rest; !known && op_next_param(op, &all, &p);) {
                known = str_eq(p.name, m->key);
            }
            if (!known) {
                return fail_unknown(op, m->key, fault);
            }
        }
    }
    while (op_next_param(op, &rest, &p)) {
        const struct json *v = json_get_str(params, p.name);
        if (v != NULL && p.of_person && by == OP_BY_PLUGIN) {
            return fail(fault, PROBLEM_FORBIDDEN,
                        "'" STR_FMT "' is for the user to decide; a plugin cannot set it",
                        STR_ARG(p.name));
        }
        if (v == NULL && !p.optional) {
            return fail(fault, PROBLEM_INVALID_BODY, "'" STR_FMT "' is missing", STR_ARG(p.name));
        }
        if (v != NULL && !fits(p.type, v)) {
            return fail(fault, PROBLEM_INVALID_BODY, "'" STR_FMT "' must be %s, not %s",
                        STR_ARG(p.name), op_type_name(p.type), json_type_name(v));
        }
    }
    return true;
}
