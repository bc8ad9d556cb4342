// The request for an operation. Its row in ops.def decides where each value goes and which type it has.

#include "client/ask.h"

#include <assert.h>

#include "base/json.h"
#include "base/url.h"

static const char *value_of(struct str name, const struct ask_param *params, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eqz(name, params[i].name)) {
            return params[i].value;
        }
    }
    return NULL;
}

static void add_path(struct buf *out, const char *path, const struct ask_param *params, size_t n)
{
    struct str rest = str_of(path);
    while (rest.n != 0) {
        buf_adds(out, str_cut(&rest, '{'));
        if (rest.n != 0) {
            const char *value = value_of(str_cut(&rest, '}'), params, n);
            assert(value != NULL); // the grammar asks for what the path needs
            url_encode(out, str_of(value));
        }
    }
}

// A string is quoted, everything else is checked and passed on as it was typed.
static int add_value(struct jw *w, const struct op_param *p, const char *value, struct err *e)
{
    if (p->type == 's') {
        jw_strz(w, value);
        return 0;
    }
    struct arena a = {0};
    struct json *v = NULL;
    struct err why = {0};
    int rc = json_parse(&v, &a, str_of(value), NULL, &why);
    bool fits = rc == 0 && (p->type == 'j' || (p->type == 'n' && v->type == JSON_INT) ||
                            strcmp(json_type_name(v), op_type_name(p->type)) == 0);
    if (fits) {
        jw_value(w, v);
    }
    arena_fini(&a);
    bool text = p->type == 'j' || p->type == 'o' || p->type == 'a';
    if (rc < 0 && text) {
        return err_set(e, ERR_USAGE, "'" STR_FMT "' is not JSON: %s", STR_ARG(p->name), why.msg);
    }
    return fits ? 0
                : err_set(e, ERR_USAGE, "'" STR_FMT "' must be of type %s, not '%.60s'",
                          STR_ARG(p->name), op_type_name(p->type), value);
}

int ask_build(enum op_id op, const struct ask_param *params, size_t n, struct buf *path,
              struct buf *body, struct err *e)
{
    const struct op *o = &ops[op];
    assert(op < OP__COUNT);
    struct str rest = str_of(o->params);
    struct op_param p;
    char before = '?';
    int rc = 0;
    add_path(path, o->path, params, n);
    struct jw w = {.out = body};
    if (op_takes_body(o)) {
        jw_obj(&w);
    }
    while (rc == 0 && op_next_param(o, &rest, &p)) {
        const char *value = value_of(p.name, params, n);
        int64_t number;
        bool in_body = op_takes_body(o) && !p.in_path;
        if (value != NULL && p.type == 'i' && !in_body && !str_to_i64(str_of(value), &number)) {
            return err_set(e, ERR_USAGE, "'" STR_FMT "' must be a number, not '%s'",
                           STR_ARG(p.name), value);
        }
        if (value == NULL || p.in_path) {
            continue;
        }
        if (in_body) {
            jw_key_str(&w, p.name);
            rc = add_value(&w, &p, value, e);
        } else {
            buf_addf(path, "%c" STR_FMT "=", before, STR_ARG(p.name));
            url_encode(path, str_of(value));
            before = '&';
        }
    }
    if (rc == 0 && op_takes_body(o)) {
        jw_end_obj(&w);
    }
    return rc;
}
