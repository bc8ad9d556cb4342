// The operations table as an OpenAPI 3.1 document.
//
// Paths are written in the order in which they first appear in the table; a path's methods are
// gathered from all of its rows. Every operation has the same error answer: problem+json with one of
// the codes of the problems table.

#include "api/openapi.h"

#include "base/json.h"
#include "proto/ops.h"
#include "proto/problems.h"

/// What is not in the path, as an object.
static void write_body(struct jw *w, const struct op *op)
{
    struct op_param p;
    struct str rest = str_of(op->params);
    bool needed = false;
    jw_kobj(w, "requestBody");
    jw_kobj(w, "content");
    jw_kobj(w, "application/json");
    jw_kobj(w, "schema");
    jw_kstrz(w, "type", "object");
    if ((op->flags & OP_WHOLE) != 0) {
        op_next_param(op, &rest, &p);
        jw_kstrz(w, "description", op_param_help(op, p.name));
        jw_end_obj(w);
        jw_end_obj(w);
        jw_end_obj(w);
        jw_kbool(w, "required", true);
        jw_end_obj(w);
        return;
    }
    jw_kbool(w, "additionalProperties", false);
    jw_karr(w, "required");
    while (op_next_param(op, &rest, &p)) {
        if (!p.in_path && !p.optional) {
            jw_str(w, p.name);
            needed = true;
        }
    }
    jw_end_arr(w);
    jw_kobj(w, "properties");
    for (rest = str_of(op->params); op_next_param(op, &rest, &p);) {
        if (!p.in_path) {
            jw_key_str(w, p.name);
            op_write_type(w, p.type, op_param_help(op, p.name));
        }
    }
    jw_end_obj(w);
    jw_end_obj(w);
    jw_end_obj(w);
    jw_end_obj(w);
    jw_kbool(w, "required", needed);
    jw_end_obj(w);
}

static void write_operation(struct jw *w, const struct op *op)
{
    static const char *const methods[] = {"get", "post", "put", "patch", "delete"};
    jw_kobj(w, methods[op->method]);
    jw_kstrz(w, "operationId", op->name);
    jw_kstrz(w, "summary", op->help);
    struct op_param p;
    struct str rest = str_of(op->params);
    jw_karr(w, "parameters");
    while (op_next_param(op, &rest, &p)) {
        if (!p.in_path && op_takes_body(op)) {
            continue;
        }
        jw_obj(w);
        jw_kstr(w, "name", p.name);
        jw_kstrz(w, "in", p.in_path ? "path" : "query");
        jw_kbool(w, "required", p.in_path || !p.optional);
        jw_kstrz(w, "description", op_param_help(op, p.name));
        jw_key(w, "schema");
        op_write_type(w, p.type, NULL);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    if (op_takes_body(op)) {
        write_body(w, op);
    }
    jw_kobj(w, "responses");
    jw_kobj(w, "2XX");
    jw_kstrz(w, "description", "done");
    jw_kobj(w, "content");
    jw_kobj(w, (op->flags & OP_TEXT) != 0 ? "text/plain" : "application/json");
    jw_end_obj(w);
    if ((op->flags & (OP_STREAMS | OP_MAY_STREAM)) != 0) {
        jw_kobj(w, "text/event-stream");
        jw_end_obj(w);
    }
    jw_end_obj(w);
    jw_end_obj(w);
    jw_kobj(w, "default");
    jw_kstrz(w, "$ref", "#/components/responses/Problem");
    jw_end_obj(w);
    jw_end_obj(w);
    if ((op->flags & OP_OPEN) != 0) {
        jw_karr(w, "security");
        jw_end_arr(w);
    }
    static const struct {
        unsigned flag;
        const char *key;
    } marks[] = {{OP_SOCKET, "x-afloat-socket-only"},
                 {OP_DESTROYS, "x-afloat-destructive"},
                 {OP_LUA, "x-afloat-lua"},
                 {OP_AGENT, "x-afloat-agent"}};
    jw_kbool(w, "x-afloat-read-only", (op->flags & OP_MUTATES) == 0);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        if ((op->flags & marks[i].flag) != 0) {
            jw_kbool(w, marks[i].key, true);
        }
    }
    jw_end_obj(w);
}

static void write_paths(struct jw *w)
{
    jw_kobj(w, "paths");
    for (size_t i = 0; i < OP__COUNT; i++) {
        size_t first = 0;
        while (strcmp(ops[first].path, ops[i].path) != 0) {
            first++;
        }
        if (first < i) {
            continue;
        }
        jw_kobj(w, ops[i].path);
        for (size_t k = i; k < OP__COUNT; k++) {
            if (strcmp(ops[k].path, ops[i].path) == 0) {
                write_operation(w, &ops[k]);
            }
        }
        jw_end_obj(w);
    }
    jw_end_obj(w);
}

static void write_components(struct jw *w)
{
    static const char *const texts[] = {"type", "title", "detail", "hint"};
    jw_kobj(w, "components");
    jw_key(w, "securitySchemes");
    jw_raw(w, STR("{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
                  "\"cookie\":{\"type\":\"apiKey\",\"in\":\"cookie\",\"name\":\"afloat\"}}"));
    jw_kobj(w, "schemas");
    jw_kobj(w, "Problem");
    jw_kstrz(w, "type", "object");
    jw_key(w, "required");
    jw_raw(w, STR("[\"type\",\"title\",\"status\",\"code\",\"detail\"]"));
    jw_kobj(w, "properties");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        jw_key(w, texts[i]);
        op_write_type(w, 's', NULL);
    }
    jw_key(w, "status");
    op_write_type(w, 'i', NULL);
    jw_kobj(w, "code");
    jw_karr(w, "enum");
    for (size_t i = 0; i < PROBLEM__COUNT; i++) {
        jw_strz(w, problems[i].code);
    }
    jw_end_arr(w);
    jw_end_obj(w);
    jw_end_obj(w);
    jw_end_obj(w);
    jw_end_obj(w);
    jw_key(w, "responses");
    jw_raw(w, STR("{\"Problem\":{\"description\":\"it was not done\",\"content\":{"
                  "\"application/problem+json\":{\"schema\":{"
                  "\"$ref\":\"#/components/schemas/Problem\"}}}}}"));
    jw_end_obj(w);
}

void openapi_write(struct buf *out, const char *version)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "openapi", "3.1.0");
    jw_kobj(&w, "info");
    jw_kstrz(&w, "title", "Afloat");
    jw_kstrz(&w, "version", version);
    jw_kstrz(&w, "description",
             "The hub's operations. Over the Unix socket no authentication is needed; over TCP the "
             "token or the browser's cookie is.");
    jw_end_obj(&w);
    jw_key(&w, "security");
    jw_raw(&w, STR("[{\"token\":[]},{\"cookie\":[]}]"));
    write_paths(&w);
    write_components(&w);
    jw_end_obj(&w);
}
