// The far end of plugins in C without a process and without a library: what it makes of what a plugin gives it.

#include "host/c_far.h"
#include "unit/test.h"

TEST(an_answer_of_several_lines_is_sent_as_one)
{
    struct afloat_call *c = c_call_new(1);
    struct err e;
    c_call_answer_json(c, "{\n  \"a\": [1,\n 2]\n}\n");
    CHECK_INT(c_call_check(c, &e), 0);
    CHECK_STR(buf_z(&c->answer), "{\"a\":[1,2]}");
    c_call_free(c);
}

TEST(an_answer_that_is_no_json_is_refused)
{
    struct afloat_call *c = c_call_new(1);
    struct err e;
    c_call_answer_json(c, "{\"a\":");
    CHECK(c_call_check(c, &e) < 0);
    CHECK(strncmp(e.msg, "its answer is no JSON: ", 23) == 0);
    c_call_free(c);
}
