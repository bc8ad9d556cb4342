// The description of the interface against the tables it is made from.

#include "api/openapi.h"
#include "base/json.h"
#include "proto/ops.h"
#include "proto/problems.h"
#include "unit/test.h"

static struct json *read_document(struct arena *a, struct buf *text)
{
    struct json *doc;
    struct err e;
    buf_init(text, 1 << 20);
    openapi_write(text, "1.2.3");
    if (json_parse(&doc, a, buf_str(text), NULL, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return doc;
}

static const struct json *operation_of(const struct json *doc, const struct op *op)
{
    char method[8];
    const char *name = op_method_name(op->method);
    for (size_t i = 0; i <= strlen(name); i++) {
        method[i] = (char)(name[i] | (name[i] != '\0' ? 0x20 : 0));
    }
    return json_get(json_get(json_get(doc, "paths"), op->path), method);
}

static const struct json *parameter_of(const struct json *operation, struct str name)
{
    const struct json *all = json_get(operation, "parameters");
    for (size_t i = 0; json_at(all, i) != NULL; i++) {
        if (str_eq(json_str(json_get(json_at(all, i), "name"), ""), name)) {
            return json_at(all, i);
        }
    }
    return NULL;
}

TEST(every_operation_and_parameter_is_described)
{
    struct arena a = {0};
    struct buf text;
    const struct json *doc = read_document(&a, &text);
    CHECK_SPAN(json_str(json_get(doc, "openapi"), ""), "3.1.0");
    CHECK_SPAN(json_str(json_ptr(doc, "/info/version"), ""), "1.2.3");
    for (size_t i = 0; i < OP__COUNT; i++) {
        const struct json *o = operation_of(doc, &ops[i]);
        CHECK_SPAN(json_str(json_get(o, "operationId"), ""), ops[i].name);
        CHECK((json_get(o, "security") != NULL) == ((ops[i].flags & OP_OPEN) != 0));
        CHECK_SPAN(json_str(json_ptr(o, "/responses/default/$ref"), ""),
                   "#/components/responses/Problem");
        struct op_param p;
        struct str rest = str_of(ops[i].params);
        while (op_next_param(&ops[i], &rest, &p)) {
            const struct json *found = parameter_of(o, p.name);
            const struct json *body =
                json_ptr(o, "/requestBody/content/application~1json/schema/properties");
            if ((ops[i].flags & OP_WHOLE) != 0) { // the body is that parameter: any object
                const struct json *whole =
                    json_ptr(o, "/requestBody/content/application~1json/schema");
                CHECK(found == NULL && json_get(whole, "additionalProperties") == NULL);
                CHECK_SPAN(json_str(json_get(whole, "description"), ""),
                           op_param_help(&ops[i], p.name));
                continue;
            }
            if (!p.in_path && op_takes_body(&ops[i])) {
                CHECK(found == NULL && json_get_str(body, p.name) != NULL);
                continue;
            }
            CHECK_SPAN(json_str(json_get(found, "in"), ""), p.in_path ? "path" : "query");
            CHECK_INT(json_bool(json_get(found, "required"), false), p.in_path || !p.optional);
        }
    }
    arena_fini(&a);
    buf_fini(&text);
}

TEST(every_problem_code_is_listed)
{
    struct arena a = {0};
    struct buf text;
    const struct json *doc = read_document(&a, &text);
    const struct json *codes = json_ptr(doc, "/components/schemas/Problem/properties/code/enum");
    for (size_t i = 0; i < PROBLEM__COUNT; i++) {
        CHECK_SPAN(json_str(json_at(codes, i), ""), problems[i].code);
    }
    CHECK(json_at(codes, PROBLEM__COUNT) == NULL);
    arena_fini(&a);
    buf_fini(&text);
}
