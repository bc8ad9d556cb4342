#include "bot/record.h"
#include "unit/test.h"

static struct str text_of(const struct record *r, struct buf *out)
{
    struct jw w;
    buf_init(out, SIZE_MAX);
    jw_init(&w, out);
    jw_obj(&w);
    record_write(r, &w, true);
    jw_end_obj(&w);
    return buf_str(out);
}

static void fill(struct record *r)
{
    struct record_iteration it = {.number = 7,
                                  .session_id = "0123456789ab",
                                  .end_reason = "complete",
                                  .summary = "did \"it\""};
    record_init(r);
    r->run_id = "00c0ffee";
    r->bot = "reviewer";
    r->project = "api";
    r->branch = "afloat/reviewer-00c0ffee";
    r->common = "/src/api/.git";
    r->prompt = "say \xc3\xa4\nand more";
    r->started_at = 1794743270614;
    r->running = true;
    r->dirty = true;
    r->commits = 3;
    record_add(r, &r->notes, STR("a line"));
    record_add(r, &r->not_kept, STR("a.o"));
    record_add(r, &r->not_kept, STR("build/"));
    vec_push(&r->iterations, it);
}

TEST(a_record_reads_back_as_it_was_written)
{
    struct record a, b;
    struct buf one, two;
    struct err e = {0};
    fill(&a);
    struct str text = text_of(&a, &one);
    CHECK_INT(record_parse(&b, text, &e), 0);
    CHECK_STR(b.prompt, "say \xc3\xa4\nand more");
    CHECK(b.running && b.dirty && !b.in_place);
    CHECK_INT(b.started_at, 1794743270614);
    CHECK_INT(b.ended_at, 0);
    CHECK_INT(b.not_kept.n, 2);
    CHECK_STR(b.not_kept.p[1], "build/");
    CHECK_INT(b.iterations.n, 1);
    CHECK_STR(record_last_session(&b), "0123456789ab");
    CHECK(str_eq(text_of(&b, &two), text));
    buf_fini(&one);
    buf_fini(&two);
    record_fini(&a);
    record_fini(&b);
}

TEST(a_document_without_a_run_in_it_is_refused)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "null",
        "{\"run_id\":12345678}",
        "{\"run_id\":\"../../etc\"}",
        "{\"run_id\":\"00C0FFEE\"}",
        "{\"run_id\":\"00c0ffe\"}",
        "{\"run_id\":\"00c0ffee\"",
        "{\"run_id\":\"00c0ffee\",\"bot\":[1],\"project\":\"shop\"}",
        "{\"run_id\":\"00c0ffee\",\"bot\":\"../../etc\",\"project\":\"shop\"}",
        "{\"run_id\":\"00c0ffee\",\"bot\":\"worker\",\"project\":\"..\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct record r;
        struct err e = {0};
        CHECK(record_parse(&r, str_of(bad[i]), &e) < 0);
        CHECK(e.msg[0] != '\0');
        record_fini(&r);
    }
}

TEST(members_of_the_wrong_type_are_as_if_they_were_not_there)
{
    struct record r;
    struct err e = {0};
    CHECK_INT(record_parse(&r,
                           STR("{\"run_id\":\"00c0ffee\",\"bot\":\"worker\",\"project\":\"shop\","
                               "\"summary\":[1],\"started_at\":true,\"notes\":{},"
                               "\"not_kept\":[1,\"x\"],\"iterations\":[5,{\"number\":\"x\"}],"
                               "\"commits\":\"many\",\"dirty\":1}"),
                           &e),
              0);
    CHECK_STR(r.summary, "");
    CHECK_INT(r.started_at, 0);
    CHECK_INT(r.notes.n, 0);
    CHECK_INT(r.not_kept.n, 2);
    CHECK_INT(r.iterations.n, 2);
    CHECK_STR(record_last_session(&r), "");
    CHECK(!r.dirty && !r.running);
    record_fini(&r);
}

TEST(a_list_shows_a_record_without_its_iterations)
{
    struct record r;
    struct buf out;
    struct jw w;
    fill(&r);
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_obj(&w);
    record_write(&r, &w, false);
    jw_end_obj(&w);
    CHECK(strstr(buf_z(&out), "\"iterations\"") == NULL);
    CHECK(strstr(buf_z(&out), "\"resume\":\"afloat run reviewer --resume 00c0ffee\"") != NULL);
    buf_fini(&out);
    record_fini(&r);
}
