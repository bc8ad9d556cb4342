#include "cli/ask.h"
#include "unit/test.h"

static int exit_of(int status, const char *body)
{
    struct client_answer a;
    client_answer_init(&a);
    a.status = status;
    buf_addz(&a.body, body);
    int code = ask_exit_of(&a);
    client_answer_fini(&a);
    return code;
}

TEST(problems_become_exit_codes)
{
    CHECK_INT(exit_of(200, ""), 0);
    CHECK_INT(exit_of(202, "{\"code\":\"NOT_FOUND\"}"), 0);
    CHECK_INT(exit_of(404, "{\"code\":\"NOT_FOUND\"}"), 3);
    CHECK_INT(exit_of(404, "<html>"), 3);
    CHECK_INT(exit_of(401, ""), 4);
    CHECK_INT(exit_of(403, "{\"code\":\"ORIGIN_NOT_ALLOWED\"}"), 4);
    CHECK_INT(exit_of(409, "{\"code\":\"UNHEARD_OF\"}"), 7);
    CHECK_INT(exit_of(400, "{}"), 1);
    CHECK_INT(exit_of(503, "{\"code\":\"STOPPING\"}"), 1);
    CHECK_INT(exit_of(302, ""), 1);
}

TEST(what_runs_for_long_is_waited_for)
{
    static const enum op_id run[] = {OP_TOOL_RUN,        OP_COMMAND_RUN, OP_MCP_TEST,
                                     OP_PLUGIN_VALIDATE, OP_RUN_MERGE,   OP_SESSION_COMPACT};
    for (size_t i = 0; i < ARRAY_LEN(run); i++) { // limits.tool_ms may be a day
        CHECK(ask_limit_ms(run[i]) > 24 * 60 * 60 * 1000);
    }
    CHECK_INT(ask_limit_ms(OP_HEALTH), CLIENT_TIMEOUT_MS);
    CHECK_INT(ask_limit_ms(OP_RUN_LIST), CLIENT_TIMEOUT_MS);
}

TEST(error_codes_become_exit_codes)
{
    CHECK_INT(cli__exit_of(0), 0);
    CHECK_INT(cli__exit_of(ERR_USAGE), 2);
    CHECK_INT(cli__exit_of(ERR_NOT_FOUND), 3);
    CHECK_INT(cli__exit_of(ERR_DENIED), 4);
    CHECK_INT(cli__exit_of(ERR_UNREACHABLE), 5);
    CHECK_INT(cli__exit_of(ERR_CONFLICT), 7);
    CHECK_INT(cli__exit_of(ERR_TIMEOUT), 124);
    CHECK_INT(cli__exit_of(ERR_CORRUPT), 1);
}
