// The far end of plugins in C without a process and without a library: what it makes of what a plugin gives it.

#include "host/c_far.h"
#include "unit/test.h"

static void begin(void)
{
    far.validating = true; // nothing is written
    pthread_mutex_init(&far.lock, NULL);
    buf_init(&far.held, SIZE_MAX);
}

static void end(void)
{
    vec_foreach (n, &far.entries) {
        free((*n)->name);
        free((*n)->data);
        free(*n);
    }
    vec_fini(&far.entries);
    buf_fini(&far.held);
    arena_fini(&far.arena);
}

static void nothing(struct afloat_call *c)
{
    (void)c;
}

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

TEST(a_value_that_is_set_again_and_again_takes_no_more_memory)
{
    begin();
    for (int i = 0; i < 1000; i++) {
        struct afloat_call *c = c_call_new(0);
        char params[1200];
        snprintf(params, sizeof params, "{\"key\":\"k\",\"value\":\"%01000d\"}", i);
        CHECK(c_ask(c, "state.set", params) != NULL);
        c_call_free(c);
    }
    struct afloat_call *c = c_call_new(0);
    const char *value = c_ask(c, "state.get", "{\"key\":\"k\"}");
    CHECK(value != NULL && strstr(value, "0999\"") != NULL);
    CHECK(far.arena.used < 16 * 1024);
    c_call_free(c);
    end();
}

TEST(a_registration_without_a_name_or_a_function_is_refused)
{
    begin();
    CHECK(c_add("tool", &(struct afloat_tool){.run = nothing}, sizeof(struct afloat_tool)) == 0);
    CHECK(c_add("route", &(struct afloat_route){.path = "/x", .run = nothing},
                sizeof(struct afloat_route)) == 0);
    CHECK(c_add("command", &(struct afloat_command){.name = "c"}, sizeof(struct afloat_command)) ==
          0);
    CHECK(c_add("prompt", &(struct afloat_prompt){.id = "p"}, sizeof(struct afloat_prompt)) == 0);
    CHECK(c_add("prompt", &(struct afloat_prompt){.id = "p", .text = "be kind"},
                sizeof(struct afloat_prompt)) != 0);
    CHECK(c_add("command", &(struct afloat_command){.name = "c", .run = nothing},
                sizeof(struct afloat_command)) != 0);
    CHECK_INT(far.entries.n, 2);
    end();
}

TEST(the_value_of_a_flag_is_json)
{
    begin();
    CHECK(c_add("flag", &(struct afloat_flag){.name = "f", .value = "yes"},
                sizeof(struct afloat_flag)) == 0);
    CHECK(c_add("flag", &(struct afloat_flag){.name = "f", .type = "string", .value = "\"yes\""},
                sizeof(struct afloat_flag)) != 0);
    CHECK(strstr(buf_z(&far.held), "\"default\":\"yes\"") != NULL);
    end();
}
