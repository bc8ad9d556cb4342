// The operations table and its small readers.

#include "proto/ops.h"

#include <assert.h>

#include "base/json.h"

const struct op ops[OP__COUNT] = {
#define OP(id, nm, meth, pth, flg, prm, hlp)                                                       \
    [OP_##id] = {                                                                                  \
        .name = nm, .method = OP_##meth, .path = pth, .flags = flg, .params = prm, .help = hlp},
#include "proto/ops.def"
#undef OP
};

static bool named_in_path(const char *path, struct str name)
{
    for (const char *p = strchr(path, '{'); p != NULL; p = strchr(p + 1, '{')) {
        if (strncmp(p + 1, name.p, name.n) == 0 && p[1 + name.n] == '}') {
            return true;
        }
    }
    return false;
}

bool op_next_param(const struct op *op, struct str *rest, struct op_param *out)
{
    struct str word = STR_NULL;
    while (rest->n != 0 && word.n == 0) {
        word = str_cut(rest, ' ');
    }
    if (word.n == 0) {
        return false;
    }
    out->name = str_cut(&word, ':');
    assert(word.n != 0); // a row of ops.def without a type
    out->type = word.p[0];
    out->optional = word.n > 1 && word.p[1] == '?';
    out->of_person = word.p[word.n - 1] == '!';
    out->in_path = named_in_path(op->path, out->name);
    return true;
}

const char *op_param_help(const struct op *op, struct str name)
{
    static const struct {
        const char *scope, *name, *help;
    } rows[] = {
#define PARAM(scope, name, help) {scope, name, help},
#include "proto/params.def"
#undef PARAM
    };
    const char *help = NULL;
    size_t best = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].scope);
        bool covers = n == 0 || (strncmp(op->name, rows[i].scope, n) == 0 &&
                                 (op->name[n] == '.' || op->name[n] == '\0'));
        if (covers && str_eqz(name, rows[i].name) && (help == NULL || n > best)) {
            help = rows[i].help;
            best = n;
        }
    }
    return help;
}

bool op_takes_body(const struct op *op)
{
    return op->method == OP_POST || op->method == OP_PUT || op->method == OP_PATCH;
}

const char *op_method_name(enum op_method m)
{
    static const char *const names[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    return names[m];
}

const char *op_type_name(char type)
{
    switch (type) {
    case 's': return "string";
    case 'i': return "integer";
    case 'n': return "number";
    case 'b': return "boolean";
    case 'a': return "array";
    case 'o': return "object";
    default: return "";
    }
}

void op_write_type(struct jw *w, char type, const char *help)
{
    const char *name = op_type_name(type);
    jw_obj(w);
    if (name[0] != '\0') {
        jw_kstrz(w, "type", name);
    }
    if (help != NULL) {
        jw_kstrz(w, "description", help);
    }
    jw_end_obj(w);
}

bool op_has_path(const char *before, struct str word)
{
    size_t n = strlen(before);
    for (size_t i = 0; i < OP__COUNT; i++) {
        if (strncmp(ops[i].path, before, n) == 0 && str_eqz(word, ops[i].path + n)) {
            return true;
        }
    }
    return false;
}

const struct op *op_find(const char *name)
{
    for (size_t i = 0; i < OP__COUNT; i++) {
        if (strcmp(ops[i].name, name) == 0) {
            return &ops[i];
        }
    }
    return NULL;
}
