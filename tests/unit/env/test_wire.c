#include "env/result.h"
#include "env/wire.h"
#include "unit/test.h"

static struct env_wire wire;
static struct arena arena;
static struct env_vars vars;
static struct buf inputs;

static void on_input(const char *path, enum env_kind kind, void *arg)
{
    (void)arg;
    buf_addf(&inputs, "%s:%d ", path, (int)kind);
}

static void begin(void)
{
    env_wire_init(&wire);
    wire.on_input = on_input;
    env_vars_init(&vars, &arena);
    buf_init(&inputs, SIZE_MAX);
    env_vars_set(&vars, STR("PATH"), STR("/usr/bin"));
    env_vars_set(&vars, STR("GONE"), STR("x"));
}

static void finish(void)
{
    env_wire_fini(&wire);
    env_vars_fini(&vars);
    arena_fini(&arena);
    buf_fini(&inputs);
}

#define CHECK_VAR(name, value) CHECK_STR(env_vars_get(&vars, STR(name)), value)

TEST(the_last_answer_decides_and_inputs_add_up)
{
    static const char text[] =
        "{\"inputs\":[{\"path\":\"a\"},{\"path\":\"b\",\"kind\":\"missing\"}]}\n"
        "{\"v\":1,\"set\":{\"A\":\"first\"}}\n"
        "{\"inputs\":[{\"path\":\"/c\",\"kind\":\"dir\"}]}\n\n"
        "{\"v\":1,\"set\":{\"B\":\"2\",\"PWD\":\"/"
        "x\"},\"unset\":[\"GONE\"],\"prepend\":{\"PATH\":[\"/p\"]},"
        "\"append\":{\"PATH\":[\"/z\"]},\"messages\":[\"hello\"]}\n";
    for (size_t piece = 1; piece < sizeof text; piece += 7) {
        begin();
        for (size_t at = 0; at < sizeof text - 1; at += piece) {
            struct str bytes = {text + at, MIN(piece, sizeof text - 1 - at)};
            CHECK_INT(env_wire_feed(&wire, bytes, NULL), 0);
        }
        CHECK_INT(env_wire_end(&wire, NULL), 0);
        env_wire_apply(&wire, &vars);
        CHECK_STR(buf_z(&inputs), "a:0 b:2 /c:1 ");
        CHECK(env_vars_get(&vars, STR("A")) == NULL);
        CHECK(env_vars_get(&vars, STR("PWD")) == NULL);
        CHECK(env_vars_get(&vars, STR("GONE")) == NULL);
        CHECK_VAR("B", "2");
        CHECK_VAR("PATH", "/p:/usr/bin:/z");
        CHECK_STR(wire.answer->messages.p[0], "hello");
        finish();
    }
}

TEST(an_environ_block_holds_what_json_cannot)
{
    static const char text[] =
        "{\"v\":1,\"environ\":true}\nA=\xff\n{not json\0BASH_FUNC_x%%=() { :; }\0B=\0";
    begin();
    CHECK_INT(env_wire_feed(&wire, (struct str){text, sizeof text - 1}, NULL), 0);
    CHECK_INT(env_wire_end(&wire, NULL), 0);
    env_wire_apply(&wire, &vars);
    CHECK_VAR("A", "\xff\n{not json");
    CHECK_VAR("B", "");
    CHECK(env_vars_get(&vars, STR("PATH")) == NULL); // the block is all there is
    finish();
}

TEST(an_answer_of_another_form_is_a_clear_failure)
{
    static const char *const rows[][2] = {
        {"hello\n", "provider's answer is invalid"},
        {"[1]\n", "a line is not an object"},
        {"{\"v\":2}\n", "version 'v' is not 1"},
        {"{\"v\":1,\"set\":[]}\n", "'set' is not an object"},
        {"{\"v\":1,\"set\":{\"A\":1}}\n", "a value of 'set' is not a string"},
        {"{\"v\":1,\"set\":{\"A\":\"x\\u0000\"}}\n", "a value of 'set' is not a string"},
        {"{\"v\":1,\"unset\":{}}\n", "'unset' is not a list"},
        {"{\"v\":1,\"prepend\":{\"PATH\":[\"a:b\"]}}\n", "contains a colon"},
        {"{\"inputs\":[{}]}\n", "an input has no path"},
        {"{\"inputs\":[]}\n", "the provider wrote no answer to descriptor 3"},
        {"{\"v\":1}\n{\"v\":", "its last line is incomplete"},
        {"", "the provider wrote no answer to descriptor 3"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};
        begin();
        int rc = env_wire_feed(&wire, str_of(rows[i][0]), &e);
        rc = rc == 0 ? env_wire_end(&wire, &e) : rc;
        CHECK_INT(rc, ERR_PARSE);
        if (strstr(e.msg, rows[i][1]) == NULL) {
            test_fail(__FILE__, __LINE__, "row %zu: %s", i, e.msg);
        }
        finish();
    }
}

TEST(an_endless_answer_is_ended)
{
    char junk[65536];
    struct err e = {0};
    int rc = 0;
    memset(junk, 'x', sizeof junk);
    begin();
    for (int i = 0; i < 1000 && rc == 0; i++) {
        rc = env_wire_feed(&wire, (struct str){junk, sizeof junk}, &e);
    }
    CHECK_INT(rc, ERR_TOO_LARGE);
    finish();
}
