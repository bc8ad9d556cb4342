#include "client/ask.h"
#include "unit/test.h"

static void check_built(enum op_id op, const struct ask_param *p, size_t n, const char *path,
                        const char *body)
{
    struct buf got_path, got_body;
    struct err e = {0};
    buf_init(&got_path, 4096);
    buf_init(&got_body, 4096);
    if (ask_build(op, p, n, &got_path, &got_body, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    CHECK_STR(buf_z(&got_path), path);
    CHECK_STR(buf_z(&got_body), body);
    buf_fini(&got_path);
    buf_fini(&got_body);
}

TEST(names_in_a_path_stay_one_part_of_it)
{
    struct ask_param p[] = {{"name", "a/../b c?d"}};
    check_built(OP_FEATURE_ENABLE, p, 1, "/feature/a%2F..%2Fb%20c%3Fd/enable", "{}");
}

TEST(a_query_is_encoded_and_leaves_absent_values_out)
{
    struct ask_param p[] = {{"types", "user.*,a&b"}, {"session", NULL}, {"after", "7"}};
    check_built(OP_EVENTS, p, 3, "/events?types=user.%2A%2Ca%26b&after=7", "");
}

TEST(a_body_takes_values_by_their_type)
{
    struct ask_param p[] = {{"type", "user.\"x\""}, {"data", " {\"n\": [1, 2.5]} "}};
    check_built(OP_EVENT_EMIT, p, 2, "/events",
                "{\"type\":\"user.\\\"x\\\"\",\"data\":{\"n\":[1,2.5]}}");
    struct ask_param ssh[] = {{"ssh", "true"}};
    check_built(OP_HUB_OPEN, ssh, 1, "/open", "{\"ssh\":true}");
}

TEST(a_value_of_the_wrong_type_is_refused_before_it_is_sent)
{
    static const char *const bad[] = {"{", "[1]", "\"x\"", "", "{} {}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ask_param p[] = {{"type", "user.x"}, {"data", bad[i]}};
        struct buf path, body;
        buf_init(&path, 4096);
        buf_init(&body, 4096);
        CHECK_INT(ask_build(OP_EVENT_EMIT, p, 2, &path, &body, NULL), ERR_USAGE);
        buf_fini(&path);
        buf_fini(&body);
    }
}
