#include "base/arena.h"
#include "base/time.h"
#include "unit/test.h"
#include "view/gauge.h"

static void feed(struct gauge *g, const char *event)
{
    struct arena arena = {0};
    struct json *ev = NULL;
    CHECK_INT(json_parse(&ev, &arena, str_of(event), NULL, NULL), 0);
    gauge_event(g, json_str(json_get(ev, "type"), ""), ev);
    arena_fini(&arena);
}

static void check_work(const struct gauge *g, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    gauge_work_line(g, &out, 100, COLOR_NONE);
    struct str line = str_trim(buf_str(&out));
    str_cut(&line, ' '); // the spinner
    CHECK_SPAN(line, expected);
    buf_fini(&out);
}

TEST(the_line_follows_the_turn)
{
    struct gauge g;
    gauge_init(&g);
    check_work(&g, "");
    feed(&g, "{\"type\": \"usage.updated\", \"usage\": {\"input\": 100, \"output\": 10}}");
    feed(&g, "{\"type\": \"turn.started\"}");
    check_work(&g, "thinking · 0 s · Esc interrupts");
    feed(&g, "{\"type\": \"message.delta\", \"text\": \"12345678\"}");
    check_work(&g, "writing · 0 s · ~2 out · Esc interrupts");
    feed(&g,
         "{\"type\": \"usage.updated\", \"usage\": {\"input\": 1600, \"output\": 25, \"cost_usd\": "
         "1.5}}");
    feed(&g, "{\"type\": \"tool.called\", \"tool\": \"shell\"}");
    feed(&g, "{\"type\": \"tool.called\", \"tool\": \"re\\u001b[2Jad\"}");
    check_work(&g,
               "running re\\x1b[2Jad and 1 more · 0 s · 1.5k in · 15 out · $1.50 · Esc interrupts");
    feed(&g, "{\"type\": \"tool.completed\"}");
    feed(&g, "{\"type\": \"tool.completed\"}");
    check_work(&g, "thinking · 0 s · 1.5k in · 15 out · $1.50 · Esc interrupts");
    feed(&g, "{\"type\": \"turn.completed\"}");
    check_work(&g, "");
}

TEST(a_retry_has_its_reason_and_its_time)
{
    struct gauge g;
    gauge_init(&g);
    gauge_begin(&g);
    feed(&g,
         "{\"type\": \"message.aborted\", \"retry_in_ms\": 90000, \"error\": {\"message\": \"too "
         "fast\"}}");
    check_work(&g, "too fast: trying again in 1 min 30 s · 0 s · Esc interrupts");
    feed(&g,
         "{\"type\": \"message.aborted\", \"retry_in_ms\": 90000, \"error\": {\"message\": \"the "
         "provider said in many words that it has had enough of this for now\"}}");
    struct buf narrow = {.max = SIZE_MAX};
    gauge_work_line(&g, &narrow, 80, COLOR_NONE);
    CHECK(strstr(buf_z(&narrow),
                 "in many …: trying again in 1 min 30 s · 0 s · Esc interrupts\n") != NULL);
    buf_fini(&narrow);
    feed(&g, "{\"type\": \"message.aborted\", \"retry_in_ms\": 1, \"error\": {\"message\": \"too "
             "fast\"}}");
    g.retry_ns = time_mono_ns() - 1;
    check_work(&g, "too fast: trying again · 0 s · Esc interrupts");
    feed(&g, "{\"type\": \"message.delta\", \"reasoning\": \"hm\"}");
    check_work(&g, "thinking · 0 s · Esc interrupts");
}

TEST(a_long_directory_is_kept_whole)
{
    char dir[700] = "/";
    struct buf row = {.max = SIZE_MAX};
    struct arena arena = {0};
    struct json *v = NULL;
    struct gauge g;
    memset(dir + 1, 'x', sizeof dir - 2);
    buf_addf(&row, "{\"working_dir\": \"%s\"}", dir);
    CHECK_INT(json_parse(&v, &arena, buf_str(&row), NULL, NULL), 0);
    gauge_init(&g);
    gauge_row(&g, v);
    CHECK_STR(g.dir, dir);
    arena_fini(&arena);
    buf_fini(&row);
}
