#include "rpc/rpc.h"
#include "unit/test.h"

// The kinds of all messages in `text`, one letter each, in brackets for a batch; "parse" and "batch" for texts
// that are refused whole.
static void check_kinds(const char *text, const char *want)
{
    static const char letters[] = {
        [RPC_REQUEST] = 'r', [RPC_NOTIFICATION] = 'n', [RPC_RESULT] = 'o',
        [RPC_ERROR] = 'e',   [RPC_INVALID] = '!',
    };
    struct arena a = {0};
    struct rpc_packet p;
    struct err e = {0};
    struct buf log;
    buf_init(&log, 4096);
    int rc = rpc_parse(&p, &a, str_of(text), &e);
    if (rc != 0) {
        buf_addz(&log, rc == ERR_PARSE ? "parse" : "batch");
        CHECK(e.msg[0] != '\0');
        CHECK_INT(p.n, 0);
    }
    for (size_t i = 0; i < p.n; i++) {
        buf_addz(&log, p.batch && i == 0 ? "[" : "");
        buf_addc(&log, letters[p.messages[i].kind]);
        CHECK((p.messages[i].kind == RPC_INVALID) ==
              (str_starts(p.messages[i].message, "'") || str_starts(p.messages[i].message, "a ")));
    }
    CHECK_STR(buf_z(&log), want);
    buf_fini(&log);
    arena_fini(&a);
}

TEST(messages_are_told_apart)
{
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", "r");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\",\"params\":[]}", "r");
    check_kinds("{\"jsonrpc\":\"2.0\",\"method\":\"note\",\"params\":{},\"more\":1}", "n");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", "o");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":null}", "o");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null,\"error\":null}", "o");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null,\"error\":{\"code\":1,"
                "\"message\":\"no\"}}",
                "e");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"no\"}}", "e");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\"}}",
                "e");
}

TEST(json_that_is_no_message_is_invalid_by_itself)
{
    check_kinds("1", "!");
    check_kinds("{}", "!");
    check_kinds("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", "!");
    check_kinds("{\"id\":1,\"method\":\"ping\"}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":3}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"result\":3}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"result\":1}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{}}", "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":\"x\",\"message\":\"no\"}}",
                "!");
    check_kinds("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"no\"}", "!");
}

TEST(an_invalid_message_keeps_an_id_that_can_be_read)
{
    struct arena a = {0};
    struct rpc_packet p;
    CHECK_INT(rpc_parse(&p, &a, STR("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\"}"), NULL), 0);
    CHECK_INT(json_int(p.messages[0].id, 0), 7);
    CHECK_INT(rpc_parse(&p, &a, STR("{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"m\"}"), NULL), 0);
    CHECK(p.messages[0].id == NULL);
    arena_fini(&a);
}

TEST(a_batch_has_messages_and_a_bound)
{
    struct buf many;
    check_kinds("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"},3,{\"jsonrpc\":\"2.0\","
                "\"method\":\"b\"}]",
                "[r!n");
    check_kinds("[1]", "[!");
    check_kinds("[]", "batch");
    buf_init(&many, 4096);
    buf_addz(&many, "[1");
    for (int i = 1; i <= RPC_BATCH_MAX; i++) {
        buf_addz(&many, ",1");
    }
    buf_addz(&many, "]");
    check_kinds(buf_z(&many), "batch");
    buf_fini(&many);
}

TEST(what_is_not_json_is_refused_whole)
{
    check_kinds("", "parse");
    check_kinds("{\"jsonrpc\"", "parse");
    check_kinds("{} {}", "parse");
    check_kinds("{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", "parse");
}

TEST(ids_of_another_type_differ)
{
    struct json one = rpc_int_id(1), two = rpc_int_id(2), text = {.type = JSON_STR, .s = STR("1")};
    CHECK(rpc_same_id(&one, &one));
    CHECK(!rpc_same_id(&one, &two));
    CHECK(!rpc_same_id(&one, &text));
    CHECK(!rpc_same_id(&one, NULL));
}

TEST(written_messages_read_back)
{
    struct buf out;
    struct jw w;
    struct json id = rpc_int_id(3);
    buf_init(&out, 4096);
    jw_init(&w, &out);
    jw_arr(&w);
    rpc_begin_request(&w, &id, "m");
    jw_obj(&w);
    jw_end_obj(&w);
    rpc_end(&w);
    rpc_begin_request(&w, NULL, "n");
    jw_obj(&w);
    jw_end_obj(&w);
    rpc_end(&w);
    rpc_begin_result(&w, &id);
    jw_int(&w, 1);
    rpc_end(&w);
    rpc_error(&w, NULL, RPC_PARSE_ERROR, "no %s", "json");
    rpc_begin_error(&w, &id, RPC_INVALID_PARAMS, STR("bad"));
    jw_obj(&w);
    jw_end_obj(&w);
    rpc_end_error(&w);
    jw_end_arr(&w);
    CHECK_STR(
        buf_z(&out),
        "[{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"m\",\"params\":{}},"
        "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}},"
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":1},"
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no json\"}},"
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32602,\"message\":\"bad\",\"data\":{}}}"
        "]");
    check_kinds(buf_z(&out), "[rnoee");
    buf_fini(&out);
}

TEST(lines_are_the_same_whatever_the_split)
{
    struct str text = STR("one\r\n\n  \ntwo\n three \nrest");
    for (size_t step = 1; step <= text.n; step++) {
        struct rpc_lines l;
        struct buf log;
        buf_init(&log, 4096);
        rpc_lines_init(&l, 16);
        for (size_t at = 0; at < text.n; at += step) {
            struct str line;
            rpc_lines_feed(&l, (struct str){text.p + at, MIN(step, text.n - at)});
            while (rpc_lines_next(&l, &line)) {
                buf_addf(&log, "[" STR_FMT "]", STR_ARG(line));
            }
        }
        CHECK_STR(buf_z(&log), "[one][two][three]");
        CHECK(!rpc_lines_over(&l));
        rpc_lines_fini(&l);
        buf_fini(&log);
    }
}

TEST(a_line_past_the_bound_ends_the_stream)
{
    struct rpc_lines l;
    struct str line;
    rpc_lines_init(&l, 4);
    rpc_lines_feed(&l, STR("1234\n12345"));
    CHECK(rpc_lines_next(&l, &line));
    CHECK(!rpc_lines_next(&l, &line));
    CHECK(rpc_lines_over(&l));
    rpc_lines_feed(&l, STR("\nmore\n"));
    CHECK(!rpc_lines_next(&l, &line));
    CHECK_INT(l.in.n, 10);
    rpc_lines_fini(&l);
}
