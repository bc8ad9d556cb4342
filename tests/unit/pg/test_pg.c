#include "lib/pg_server.h"
#include "pg/pg.h"
#include "unit/loop.h"

static struct loop loop;
static struct pg *pg;
static int answers, rings, ups, downs, closed;
static char last[256], ring[64];
static struct err fault;

static void on_answer(void *arg, const struct pg_result *r, const struct err *e)
{
    (void)arg;
    answers++;
    last[0] = '\0';
    fault = e != NULL ? *e : (struct err){0};
    for (size_t i = 0; r != NULL && i < pg_rows(r); i++) {
        struct str v = pg_get(r, i, 0);
        snprintf(last + strlen(last), sizeof last - strlen(last), "%s" STR_FMT, i ? "," : "",
                 STR_ARG(v));
    }
}

static void on_order(void *arg, const struct pg_result *r, const struct err *e)
{
    CHECK(e == NULL);
    CHECK_INT(pg_get_int(r, 0, 0), answers);
    CHECK_INT((intptr_t)arg, answers);
    answers++;
}

static void on_ring(void *arg, struct str payload)
{
    (void)arg;
    rings++;
    snprintf(ring, sizeof ring, STR_FMT, STR_ARG(payload));
}

static void on_state(void *arg, const struct err *why)
{
    (void)arg;
    *(why == NULL ? &ups : &downs) += 1;
}

static void on_closed(void *arg)
{
    (void)arg;
    closed = 1;
}

static void turn_until(const int *what, int n)
{
    while (*what < n) {
        loop_run_once(&loop, true);
    }
}

static void begin(const char *url, unsigned patience_ms)
{
    struct pg_opts o = {.url = url,
                        .size = 2,
                        .patience_ms = patience_ms,
                        .channel = "bells",
                        .notify = on_ring,
                        .state = on_state};
    CHECK_INT(loop_init(&loop, NULL, NULL), 0);
    CHECK_INT(pg_open(&pg, &loop, &o, NULL), 0);
}

static void end(void)
{
    pg_close(pg, on_closed, NULL);
    turn_until(&closed, 1);
    TEST_LOOP_END(&loop);
}

static const char *ask(const struct pg_stmt *s, const struct pg_param *params, int n)
{
    int before = answers;
    pg_query(pg, 0, s, params, n, on_answer, NULL);
    CHECK_INT(answers, before); // never from inside
    turn_until(&answers, before + 1);
    return last;
}

static const struct pg_stmt number = {"number", "SELECT $1::bigint"};
static const struct pg_stmt unnest = {"unnest", "SELECT unnest($1::text[])"};
static const struct pg_stmt wrong = {"wrong", "SELECT no_such_column"};
static const struct pg_stmt fails = {"fails", "SELECT 1 / $1::int"};
static const struct pg_stmt rung = {"rung", "SELECT pg_notify('bells', $1)"};
static const struct pg_stmt sleeps = {"sleeps", "SELECT 'slept' FROM pg_sleep(0.5)"};

TEST(pg_questions)
{
    struct pg_number room;
    struct buf b;
    begin(pg_server_start(), 0);
    struct pg_param seven = pg_int(&room, 7), none = PG_NULL;
    CHECK_STR(ask(&number, &seven, 1), "7");
    CHECK_STR(ask(&number, &none, 1), "");
    buf_init(&b, SIZE_MAX);
    pg_array_begin(&b, 3);
    pg_array_add(&b, STR("a\"b,{}"));
    pg_array_add(&b, STR(""));
    pg_array_add(&b, STR("\xc3\xa9\\"));
    struct pg_param list = pg_array(&b);
    CHECK_STR(ask(&unnest, &list, 1), "a\"b,{},,\xc3\xa9\\");
    pg_array_begin(&b, 0);
    list = pg_array(&b);
    CHECK_STR(ask(&unnest, &list, 1), "");
    CHECK_INT(fault.code, 0);
    buf_fini(&b);

    // a statement that cannot be prepared, and one that fails, take nothing along
    ask(&wrong, NULL, 0);
    CHECK(strstr(fault.msg, "no_such_column") != NULL);
    ask(&wrong, NULL, 0);
    CHECK(fault.code < 0);
    struct pg_param zero = pg_text(STR("0"));
    ask(&fails, &zero, 1);
    CHECK(strstr(fault.msg, "division by zero") != NULL);
    CHECK_STR(ask(&number, &seven, 1), "7");
    CHECK_INT(pg_stats(pg).waiting, 0);
    CHECK(pg_stats(pg).server >= 140000 && pg_stats(pg).latency_ms > 0);
    CHECK_INT(ups, 1);
    end();
}

TEST(pg_order_in_a_pipeline)
{
    begin(pg_server_start(), 0);
    for (int i = 0; i < 1000; i++) {
        struct pg_number room;
        struct pg_param p = pg_int(&room, i);
        pg_query(pg, 5, &number, &p, 1, on_order, (void *)(intptr_t)i);
    }
    turn_until(&answers, 1000);
    end();
}

TEST(pg_bell)
{
    begin(pg_server_start(), 0);
    turn_until(&rings, 1); // it listens now: something may have been missed
    CHECK_STR(ring, "");
    struct pg_param text = pg_text(STR("42"));
    ask(&rung, &text, 1);
    turn_until(&rings, 2);
    CHECK_STR(ring, "42");
    end();
}

TEST(pg_server_restarts)
{
    begin(pg_server_start(), 0);
    turn_until(&rings, 1);
    struct pg_param three = pg_text(STR("3"));
    CHECK_STR(ask(&number, &three, 1), "3");
    pg_query(pg, 0, &sleeps, NULL, 0, on_answer, NULL); // under way when the server goes
    loop_run_once(&loop, false);
    pg_server_stop();
    turn_until(&downs, 1);
    CHECK(pg_trouble(pg) != NULL);
    pg_server_again();
    turn_until(&answers, 2);
    CHECK_STR(last, "slept");
    CHECK_STR(ask(&number, &three, 1), "3"); // prepared anew
    turn_until(&rings, 2);
    CHECK_INT(ups, 2);
    CHECK(pg_trouble(pg) == NULL);
    end();
}

TEST(pg_no_server)
{
    begin("postgresql://boss@/x?host=/nonexistent", 300);
    struct pg_param three = pg_text(STR("3"));
    ask(&number, &three, 1);
    CHECK(strstr(fault.msg, "cannot reach the store in PostgreSQL") != NULL);
    CHECK(fault.code < 0 && pg_trouble(pg) != NULL);
    end();
}

TEST(pg_closed_with_requests)
{
    begin(pg_server_start(), 0);
    struct pg_param three = pg_text(STR("3"));
    ask(&number, &three, 1);
    pg_query(pg, 0, &sleeps, NULL, 0, on_answer, NULL);
    pg_query(pg, 1, &sleeps, NULL, 0, on_answer, NULL);
    loop_run_once(&loop, false);
    pg_close(pg, on_closed, NULL);
    CHECK_INT(answers, 3);
    CHECK(strstr(fault.msg, "being closed") != NULL);
    turn_until(&closed, 1);
    TEST_LOOP_END(&loop);
}
