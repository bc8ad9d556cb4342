#include "net/date.h"
#include "net/sse.h"
#include "unit/test.h"

static int on_event(void *arg, const struct sse_event *ev)
{
    struct buf *log = arg;
    buf_addf(log, "[" STR_FMT "|" STR_FMT "|" STR_FMT "]", STR_ARG(ev->id), STR_ARG(ev->event),
             STR_ARG(ev->data));
    return 0;
}

static void check_all_splits(struct str text, const char *want)
{
    for (size_t step = 1; step <= text.n; step++) {
        struct sse_parser p;
        struct buf log;
        struct err e;
        buf_init(&log, 1 << 16);
        sse_init(&p, 1024, on_event, &log);
        for (size_t at = 0; at < text.n; at += step) {
            CHECK_INT(sse_feed(&p, (struct str){text.p + at, MIN(step, text.n - at)}, &e), 0);
        }
        CHECK_SPAN(buf_str(&log), want);
        buf_fini(&log);
        sse_fini(&p);
    }
}

TEST(events_read_the_same_whatever_the_split_and_line_end)
{
    check_all_splits(STR("id: 1\nevent: a\ndata: x\n\ndata:y\ndata: z\n\n"),
                     "[1|a|x][1|message|y\nz]");
    check_all_splits(STR("id: 1\r\nevent: a\r\ndata: x\r\n\r\ndata: y\r\n\r\n"),
                     "[1|a|x][1|message|y]");
    check_all_splits(STR("id: 1\revent: a\rdata: x\r\rdata: y\r\r"), "[1|a|x][1|message|y]");
}

TEST(marks_comments_and_unknown_fields_are_passed_over)
{
    check_all_splits(STR("\xEF\xBB\xBF"
                         "data: a\n\n: comment\nfoo: bar\ndata\n\n"),
                     "[|message|a][|message|]");
    check_all_splits(STR("\xEF\xBB"
                         "data: a\n\ndata: b\n\n"),
                     "[|message|b]");
}

TEST(an_event_without_data_or_without_end_is_not_delivered)
{
    check_all_splits(STR("event: a\n\ndata: x\n"), "");
}

TEST(an_id_with_a_nul_is_ignored_and_an_empty_one_resets)
{
    check_all_splits(STR("id: 5\ndata: a\n\nid: 6\0\ndata: b\n\nid\ndata: c\n\n"),
                     "[5|message|a][5|message|b][|message|c]");
}

TEST(a_line_or_event_past_the_bound_is_refused)
{
    struct sse_parser p;
    struct buf log, text;
    struct err e;
    buf_init(&log, 1 << 16);
    buf_init(&text, 1 << 16);
    sse_init(&p, 64, on_event, &log);
    buf_addz(&text, "data: ");
    for (int i = 0; i < 70; i++) {
        buf_addc(&text, 'x');
    }
    CHECK_INT(sse_feed(&p, buf_str(&text), &e), ERR_TOO_LARGE);
    sse_fini(&p);
    sse_init(&p, 64, on_event, &log);
    int rc = 0;
    for (int i = 0; i < 10 && rc == 0; i++) {
        rc = sse_feed(&p, STR("data: 0123456789\n"), &e);
    }
    CHECK_INT(rc, ERR_TOO_LARGE);
    sse_fini(&p);
    buf_fini(&text);
    buf_fini(&log);
}

TEST(the_wish_for_a_retry_time_is_kept)
{
    struct sse_parser p;
    struct buf log;
    struct err e;
    buf_init(&log, 1 << 16);
    sse_init(&p, 64, on_event, &log);
    CHECK_INT(sse_feed(&p, STR("retry: 1500\n\nretry: soon\n\n"), &e), 0);
    CHECK_INT(p.retry_ms, 1500);
    sse_fini(&p);
    buf_fini(&log);
}

TEST(what_is_written_reads_back)
{
    struct buf out;
    buf_init(&out, 1024);
    sse_write_comment(&out, "hello");
    sse_write(&out, STR("7"), STR("x.y"), STR("one\r\ntwo\nthree"));
    sse_write(&out, STR_NULL, STR_NULL, STR(""));
    CHECK_SPAN(buf_str(&out), ": hello\n\nid: 7\nevent: x.y\ndata: one\ndata: two\ndata: three\n\n"
                              "data: \n\n");
    check_all_splits(buf_str(&out), "[7|x.y|one\ntwo\nthree][7|message|]");
    buf_fini(&out);
}

TEST(dates_are_written_as_http_wants_them)
{
    char text[DATE_TEXT];
    CHECK_STR(date_format(784111777000, text), "Sun, 06 Nov 1994 08:49:37 GMT");
    CHECK_STR(date_format(0, text), "Thu, 01 Jan 1970 00:00:00 GMT");
    CHECK_STR(date_format(INT64_MAX, text), "Thu, 01 Jan 1970 00:00:00 GMT");
}
