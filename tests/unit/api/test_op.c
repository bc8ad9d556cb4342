#include "api/op.h"
#include "unit/test.h"

// The verdict on `text` as the parameters of `id`.
static struct op_fault verdict_on(enum op_id id, enum op_caller by, const char *text, bool *ok)
{
    struct arena a = {0};
    struct json *params = NULL;
    struct op_fault fault;
    if (text != NULL) {
        CHECK_INT(json_parse(&params, &a, str_of(text), NULL, NULL), 0);
    }
    *ok = op_check_params(id, by, params, &fault);
    arena_fini(&a);
    return fault;
}

static struct op_fault verdict(enum op_id id, const char *text, bool *ok)
{
    return verdict_on(id, OP_BY_CLIENT, text, ok);
}

TEST(parameters_are_checked_against_the_table)
{
    static const struct {
        enum op_id id;
        const char *text;
        bool good;
        enum problem problem;
    } cases[] = {
        {OP_HEALTH, NULL, true, 0},
        {OP_HEALTH, "{}", true, 0},
        {OP_HEALTH, "{\"x\":1}", false, PROBLEM_UNKNOWN_FIELD},
        {OP_LOGS, "{\"limit\":3}", true, 0},
        {OP_LOGS, "{\"limit\":\"3\"}", false, PROBLEM_INVALID_BODY},
        {OP_LOGS, "{\"limit\":3.5}", false, PROBLEM_INVALID_BODY},
        {OP_LOGS, "{\"limit\":null}", false, PROBLEM_INVALID_BODY},
        {OP_EVENT_EMIT, "{\"type\":\"user.x\"}", true, 0},
        {OP_EVENT_EMIT, "{\"type\":\"user.x\",\"data\":{}}", true, 0},
        {OP_EVENT_EMIT, "{\"type\":\"user.x\",\"data\":[]}", false, PROBLEM_INVALID_BODY},
        {OP_EVENT_EMIT, "{\"data\":{}}", false, PROBLEM_INVALID_BODY},
        {OP_EVENT_EMIT, NULL, false, PROBLEM_INVALID_BODY},
        {OP_HUB_OPEN, "{\"ssh\":true}", true, 0},
        {OP_HUB_OPEN, "{\"ssh\":1}", false, PROBLEM_INVALID_BODY},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool ok;
        struct op_fault f = verdict(cases[i].id, cases[i].text, &ok);
        CHECK_INT(ok, cases[i].good);
        if (!ok) {
            CHECK_INT(f.problem, cases[i].problem);
            CHECK(f.detail[0] != '\0');
        }
    }
}

TEST(an_unknown_field_names_the_nearest)
{
    bool ok;
    struct op_fault f = verdict(OP_EVENTS, "{\"typs\":\"x\"}", &ok);
    CHECK(!ok);
    CHECK_STR(f.hint, "did you mean 'types'?");
    f = verdict(OP_EVENT_EMIT, "{\"typ\":\"user.x\"}", &ok); // before what is missing for it
    CHECK(!ok);
    CHECK_INT(f.problem, PROBLEM_UNKNOWN_FIELD);
    CHECK_STR(f.hint, "did you mean 'type'?");
    f = verdict(OP_EVENTS, "{\"zzzzzzzz\":\"x\"}", &ok);
    CHECK(!ok && f.hint[0] == '\0');
}

TEST(the_last_of_many_parameters_is_found_as_the_nearest)
{
    bool ok;
    struct op_fault f = verdict(OP_SESSION_NEW, "{\"worktre\":true}", &ok);
    CHECK(!ok);
    CHECK_STR(f.hint, "did you mean 'worktree'?");
}

TEST(a_hostile_field_name_is_cut)
{
    char text[4096];
    bool ok;
    int n = snprintf(text, sizeof text, "{\"");
    memset(text + n, 'x', 3000);
    snprintf(text + n + 3000, sizeof text - (size_t)n - 3000, "\":1}");
    struct op_fault f = verdict(OP_EVENTS, text, &ok);
    CHECK(!ok && strlen(f.detail) < sizeof f.detail);
}

TEST(a_plugin_may_not_set_what_is_for_the_user_to_decide)
{
    static const struct {
        enum op_id id;
        const char *text;
    } cases[] = {
        {OP_SESSION_NEW, "{\"permission\":\"allow\"}"},
        {OP_SESSION_NEW, "{\"sandbox\":\"danger-full-access\"}"},
        {OP_SESSION_PATCH, "{\"id\":\"s\",\"writable\":[\"/\"]}"},
        {OP_SESSION_PATCH, "{\"id\":\"s\",\"network\":true}"},
        {OP_BOT_CREATE, "{\"name\":\"b\",\"merge\":\"auto\"}"},
        {OP_RUN_START, "{\"bot\":\"b\",\"working_dir\":\"/w\",\"worktree\":false}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool ok;
        verdict(cases[i].id, cases[i].text, &ok);
        CHECK(ok);
        struct op_fault f = verdict_on(cases[i].id, OP_BY_PLUGIN, cases[i].text, &ok);
        CHECK(!ok);
        CHECK_INT(f.problem, PROBLEM_FORBIDDEN);
    }
}
