#include "base/json.h"
#include "proto/ops.h"
#include "proto/problems.h"
#include "unit/test.h"

TEST(every_operation_is_complete_and_unique)
{
    for (size_t i = 0; i < OP__COUNT; i++) {
        const struct op *op = &ops[i];
        CHECK(op->name[0] != '\0' && op->path[0] == '/' && op->help[0] != '\0');
        CHECK(op_find(op->name) == op);
        for (size_t j = 0; j < i; j++) {
            CHECK(op->method != ops[j].method || strcmp(op->path, ops[j].path) != 0);
        }
    }
    CHECK(op_find("no.such") == NULL);
}

TEST(names_in_braces_are_parameters)
{
    for (size_t i = 0; i < OP__COUNT; i++) {
        size_t braces = 0, in_path = 0;
        struct op_param p;
        struct str rest = str_of(ops[i].params);
        for (const char *c = ops[i].path; *c != '\0'; c++) {
            braces += *c == '{';
        }
        while (op_next_param(&ops[i], &rest, &p)) {
            in_path += p.in_path;
            CHECK(strchr("sinbaoj", p.type) != NULL);
            CHECK(!(p.in_path && p.optional));
        }
        CHECK_INT(in_path, braces);
    }
}

TEST(every_parameter_says_what_it_means)
{
    for (size_t i = 0; i < OP__COUNT; i++) {
        struct op_param p;
        struct str rest = str_of(ops[i].params);
        while (op_next_param(&ops[i], &rest, &p)) {
            CHECK(op_param_help(&ops[i], p.name) != NULL);
        }
    }
    CHECK_STR(op_param_help(op_find("run.list"), STR("state")),
              "only runs in this state: queued, running or ended");
    CHECK_STR(op_param_help(op_find("reload"), STR("dry_run")), "only say what would happen");
    CHECK(op_param_help(op_find("session.list"), STR("names")) == NULL);
}

TEST(decisions_of_the_user_are_not_offered_to_plugins)
{
    static const char *const never[] = {
        "trust.add",      "trust.remove", "trust.list", "session.permission", "permission.remove",
        "token.rotate",   "hub.open",     "hub.stop",   "bot.import",         "plugin.enable",
        "feature.enable", "plugin.add",   "run.apply",  "run.merge",          "tool.enable"};
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        CHECK((op_find(never[i])->flags & (OP_LUA | OP_AGENT)) == 0);
    }
    for (size_t i = 0; i < OP__COUNT; i++) {
        unsigned f = ops[i].flags;
        CHECK((f & OP_LUA) == 0 || (f & (OP_SOCKET | OP_OPEN)) == 0);
        CHECK((f & OP_AGENT) == 0 || (f & OP_LUA) != 0); // lower trust has less
        CHECK((f & OP_DESTROYS) == 0 || (f & OP_MUTATES) != 0);
        CHECK(ops[i].method != OP_GET || (f & OP_MUTATES) == 0);
    }
}

TEST(a_row_is_taken_apart_into_parameters)
{
    struct op op = {.method = OP_POST, .path = "/a/{id}/b", .params = "id:s  count:i? all:b?!"};
    struct str rest = str_of(op.params);
    struct op_param p;
    CHECK(op_next_param(&op, &rest, &p));
    CHECK_SPAN(p.name, "id");
    CHECK(p.type == 's' && !p.optional && p.in_path);
    CHECK(op_next_param(&op, &rest, &p));
    CHECK_SPAN(p.name, "count");
    CHECK(p.type == 'i' && p.optional && !p.in_path && !p.of_person);
    CHECK(op_next_param(&op, &rest, &p));
    CHECK_SPAN(p.name, "all");
    CHECK(p.optional && p.of_person);
    CHECK(!op_next_param(&op, &rest, &p));
    CHECK(op_takes_body(&op));
}

TEST(a_problem_is_written_with_all_its_fields)
{
    struct buf out;
    struct arena a = {0};
    struct json *v;
    buf_init(&out, 4096);
    problem_write(&out, PROBLEM_CONFLICT, STR("two \"at\" once\n"), "wait");
    CHECK_INT(json_parse(&v, &a, buf_str(&out), NULL, NULL), 0);
    CHECK_SPAN(json_str(json_get(v, "code"), NULL), "CONFLICT");
    CHECK_INT(json_int(json_get(v, "status"), 0), 409);
    CHECK_SPAN(json_str(json_get(v, "detail"), NULL), "two \"at\" once\n");
    CHECK_SPAN(json_str(json_get(v, "hint"), NULL), "wait");
    CHECK(json_get(v, "title") != NULL && json_get(v, "type") != NULL);
    buf_clear(&out);
    problem_write(&out, PROBLEM_CONFLICT, STR("x"), NULL);
    CHECK_INT(json_parse(&v, &a, buf_str(&out), NULL, NULL), 0);
    CHECK(json_get(v, "hint") == NULL);
    arena_fini(&a);
    buf_fini(&out);
}

TEST(problems_are_found_by_code_and_map_to_exit_codes)
{
    CHECK_INT(problem_find(STR("NOT_FOUND"))->exit_code, 3);
    CHECK_INT(problem_find(STR("UNAUTHORIZED"))->exit_code, 4);
    CHECK_INT(problem_find(STR("CONFLICT"))->exit_code, 7);
    CHECK(problem_find(STR("NOT_FOUN")) == NULL);
    for (size_t i = 0; i < PROBLEM__COUNT; i++) {
        CHECK(problems[i].status >= 400 && problems[i].status < 600);
    }
}
