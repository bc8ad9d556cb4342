// Path, query and body become the one object of parameters that an operation takes.
//
// Names in braces come from the path; all others from the query (GET, DELETE) or the body (POST,
// PUT, PATCH), never from both: an operation is asked in one way. Query values are text and get the
// type that the table gives their name; what does not fit stays text, and the check of the table
// says what is wrong with it.

#include <ctype.h>

#include "base/url.h"
#include "base/utf8.h"
#include "server/server_int.h"

enum { QUERY_NAMES = 32 };

static const struct json nothing = {.type = JSON_OBJ};

bool params__decode(struct arena *a, struct str raw, bool plus, struct str *out)
{
    struct buf text = {.max = SIZE_MAX};
    for (size_t i = 0; i < raw.n; i++) {
        if (raw.p[i] == '%' && (raw.n - i < 3 || !isxdigit((unsigned char)raw.p[i + 1]) ||
                                !isxdigit((unsigned char)raw.p[i + 2]))) {
            return false;
        }
    }
    url_decode(&text, raw, plus);
    *out = arena_str(a, buf_str(&text));
    buf_fini(&text);
    return str_index(*out, '\0') < 0 && utf8_valid(*out);
}

/// Add a parameter that came as text, with the type that the table gives its name where it fits.
static void add_text(struct arena *a, const struct op *op, struct json *obj, struct str name,
                     struct str text)
{
    struct json value = {.type = JSON_STR, .s = text}, *parsed;
    struct op_param p;
    struct str rest = str_of(op->params);
    while (op_next_param(op, &rest, &p)) {
        if (str_eq(p.name, name) && p.type != 's' &&
            json_parse(&parsed, a, text, NULL, NULL) == 0) {
            value = *parsed;
        }
    }
    obj->members[obj->n++] = (struct json_member){.key = name, .value = value};
}

// Values of the braces of the path. False when one of them is no text, or is `.` or `..`.
static bool add_path(struct arena *a, const struct asked *q, struct json *obj, struct refusal *no)
{
    const char *brace = q->match.op->path;
    for (size_t i = 0; (brace = strchr(brace, '{')) != NULL; i++) {
        struct str name = {brace + 1, strcspn(brace + 1, "}")}, value;
        brace++;
        if (!params__decode(a, q->match.params[i], false, &value)) {
            return request__refuse(no, PROBLEM_INVALID_REQUEST,
                                   "'" STR_FMT "' in the address is not well-formed",
                                   STR_ARG(name));
        }
        if (str_eqz(value, ".") || str_eqz(value, "..")) {
            return request__refuse(no, PROBLEM_NOT_FOUND, "there is no such " STR_FMT,
                                   STR_ARG(name));
        }
        add_text(a, q->match.op, obj, name, value);
    }
    return true;
}

static bool add_query(struct arena *a, const struct asked *q, struct json *obj, struct refusal *no)
{
    struct str rest = q->query;
    while (rest.n != 0) {
        struct str pair = str_cut(&rest, '&'), name, value;
        struct str raw_name = str_cut(&pair, '=');
        if (!params__decode(a, raw_name, true, &name) || name.n == 0 ||
            !params__decode(a, pair, true, &value)) {
            return request__refuse(no, PROBLEM_INVALID_REQUEST, "the query is not well-formed");
        }
        if (obj->n == QUERY_NAMES) {
            return request__refuse(no, PROBLEM_INVALID_REQUEST,
                                   "the query has more than %d parameters", QUERY_NAMES);
        }
        if (json_get_str(obj, name) != NULL) {
            return request__refuse(no, PROBLEM_INVALID_REQUEST, "'%.*s' is given twice",
                                   (int)MIN(name.n, 64), name.p);
        }
        add_text(a, q->match.op, obj, name, value);
    }
    return true;
}

// The parser refuses a field that is given twice; a field of the path can still come again.
static bool add_body(const struct json *body, struct json *obj, struct refusal *no)
{
    const struct json from_path = *obj;
    json_foreach_member (m, body) {
        if (json_get_str(&from_path, m->key) != NULL) {
            return request__refuse(no, PROBLEM_INVALID_BODY, "'%.*s' comes from the address",
                                   (int)MIN(m->key.n, 64), m->key.p);
        }
        obj->members[obj->n++] = *m;
    }
    return true;
}

static bool collect(struct arena *a, const struct asked *q, struct str body,
                    const struct json **out, struct refusal *no)
{
    struct json *from_body = NULL;
    struct err e;
    bool by_body = op_takes_body(q->match.op);
    if (by_body && q->query.n != 0) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST,
                               "parameters of this operation belong in the body");
    }
    if (body.n != 0 && !request__is_json(q->fields.content_type)) {
        return request__refuse(no, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                               "the body must be application/json");
    }
    if (body.n != 0 && json_parse(&from_body, a, body, NULL, &e) < 0) {
        return request__refuse(no, PROBLEM_INVALID_JSON, "%s", e.msg);
    }
    if (from_body != NULL && from_body->type != JSON_OBJ) {
        return request__refuse(no, PROBLEM_INVALID_BODY, "the body must be an object, not %s",
                               json_type_name(from_body));
    }
    const struct json *members = from_body != NULL ? from_body : &nothing;
    struct json *obj = arena_calloc(a, 1, sizeof *obj);
    obj->type = JSON_OBJ;
    obj->members = arena_calloc(a, ROUTE_PARAMS + QUERY_NAMES + members->n, sizeof *obj->members);
    *out = obj;
    if ((q->match.op->flags & OP_WHOLE) != 0) {
        struct op_param whole;
        struct str rest = str_of(q->match.op->params);
        bool named = op_next_param(q->match.op, &rest, &whole);
        assert(named && rest.n == 0 && q->match.params[0].p == NULL);
        obj->members[obj->n++] = (struct json_member){whole.name, *members};
        return true;
    }
    return add_path(a, q, obj, no) &&
           (by_body ? add_body(members, obj, no) : add_query(a, q, obj, no));
}

bool params__build(struct arena *a, const struct asked *q, struct str body, const struct json **out,
                   struct refusal *no)
{
    struct op_fault fault;
    bool bare = q->match.params[0].p == NULL && q->query.n == 0 && body.n == 0;
    *out = &nothing;
    if (bare && q->match.op->params[0] == '\0') {
        return true;
    }
    if (!bare && !collect(a, q, body, out, no)) {
        return false;
    }
    if (op_check_params((enum op_id)(q->match.op - ops), OP_BY_CLIENT, *out, &fault)) {
        return true;
    }
    no->hint = fault.hint[0] != '\0' ? arena_strdup(a, str_of(fault.hint)) : NULL;
    return request__refuse(no, fault.problem, "%s", fault.detail);
}
