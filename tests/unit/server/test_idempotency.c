// Idempotency-Key.

#include <unistd.h>

#include "unit/server/rig.h"

static int enable(const char *name, const char *key, char *body, size_t n)
{
    char request[512];
    snprintf(request, sizeof request,
             "POST /feature/%s/enable HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\n\r\n", name,
             key);
    return rig_ask_unix(request, body, n);
}

TEST(the_same_key_gives_the_first_answer_again)
{
    char first[256], again[256];
    struct answer a;
    rig_open(NULL);
    CHECK_INT(enable("a", "k1", first, sizeof first), 200);
    CHECK_INT(enable("a", "k1", again, sizeof again), 200);
    CHECK_STR(again, first);
    CHECK_INT(rig.runs[OP_FEATURE_ENABLE], 1);
    CHECK_INT(enable("a", "k2", again, sizeof again), 200);
    CHECK_INT(rig.runs[OP_FEATURE_ENABLE], 2);
    int fd = rig_unix();
    rig_put(fd, "POST /feature/a/enable HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k1\r\n\r\n");
    rig_read(fd, false, &a);
    CHECK_SPAN(http1_get(&a.head, "idempotency-replayed"), "true");
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(a_created_thing_keeps_its_location_when_replayed)
{
    static const char request[] =
        "POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Idempotency-Key: k\r\nContent-Length: 17\r\n\r\n{\"type\":\"user.a\"}";
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    for (int i = 0; i < 2; i++) {
        rig_put(fd, request);
        rig_read(fd, false, &a);
        CHECK_INT(a.head.status, 201);
        CHECK_SPAN(http1_get(&a.head, "location"), "/events/7");
        answer_fini(&a);
    }
    CHECK_INT(rig.runs[OP_EVENT_EMIT], 1);
    close(fd);
    rig_close();
}

TEST(a_key_used_for_something_else_is_a_conflict)
{
    char body[512];
    rig_open(NULL);
    CHECK_INT(enable("a", "k", NULL, 0), 200);
    CHECK_INT(enable("b", "k", body, sizeof body), 409);
    CHECK(strstr(body, "\"code\":\"CONFLICT\"") != NULL);
    CHECK_INT(rig.runs[OP_FEATURE_ENABLE], 1);
    rig_close();
}

TEST(a_second_request_while_the_first_runs_is_a_conflict)
{
    static const char request[] =
        "POST /feature/a/disable HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n\r\n";
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, request);
    rig_turn();
    CHECK_INT(rig.n_held, 1);
    CHECK_INT(rig_ask_unix(request, NULL, 0), 409);
    CHECK_INT(rig.n_held, 1);
    rig_answer(0, 200, "{\"done\":1}");
    rig_read(fd, false, &a);
    answer_fini(&a);
    rig_put(fd, request);
    rig_read(fd, false, &a);
    CHECK_SPAN(buf_str(&a.body), "{\"done\":1}");
    answer_fini(&a);
    CHECK_INT(rig.n_held, 0);
    close(fd);
    rig_close();
}

TEST(the_answer_is_kept_though_the_first_caller_left)
{
    static const char request[] =
        "POST /feature/a/disable HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n\r\n";
    char body[64];
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, request);
    rig_turn();
    close(fd);
    rig_turn();
    rig_answer(0, 200, "{\"done\":1}");
    CHECK_INT(rig_ask_unix(request, body, sizeof body), 200);
    CHECK_STR(body, "{\"done\":1}");
    rig_close();
}

TEST(a_failure_of_ours_may_be_tried_again)
{
    static const char request[] =
        "POST /feature/a/disable HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n\r\n";
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    for (int i = 0; i < 2; i++) {
        rig_put(fd, request);
        rig_turn();
        CHECK_INT(rig.n_held, 1);
        rig_answer(0, i == 0 ? 500 : 200, "{}");
        rig_read(fd, false, &a);
        CHECK_INT(a.head.status, i == 0 ? 500 : 200);
        answer_fini(&a);
    }
    close(fd);
    rig_close();
}

TEST(a_key_is_forgotten_after_a_day)
{
    rig_open(NULL);
    CHECK_INT(enable("a", "k", NULL, 0), 200);
    rig_pass(24 * 3600 * 1000 - 1);
    CHECK_INT(enable("a", "k", NULL, 0), 200);
    CHECK_INT(rig.runs[OP_FEATURE_ENABLE], 1);
    rig_pass(1);
    CHECK_INT(enable("a", "k", NULL, 0), 200);
    CHECK_INT(rig.runs[OP_FEATURE_ENABLE], 2);
    rig_close();
}

TEST(the_table_of_keys_is_bounded)
{
    struct idem_entry *x;
    struct idem_answer a = {.status = 200, .type = "t"};
    char key[32];
    rig_open(NULL);
    struct idem *t = rig.server->idem;
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        CHECK_INT(idem__begin(t, OP_HEALTH, str_of(key), STR("/"), STR_NULL, &x, &a), IDEM_NEW);
        CHECK(x != NULL);
        char *body = xcalloc(1, 10000);
        idem__finish(t, x,
                     &(struct idem_answer){.status = 200, .type = "t", .body = {body, 10000}});
        free(body);
    }
    size_t kept = 0;
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        enum idem_found f = idem__begin(t, OP_HEALTH, str_of(key), STR("/"), STR_NULL, &x, &a);
        kept += f == IDEM_REPLAY;
        if (f == IDEM_NEW) {
            idem__drop(t, x);
        }
    }
    CHECK_INT(kept, 104); // 1 MiB of them
    rig_close();
}

TEST(an_answer_above_the_bound_pushes_out_no_other)
{
    enum { ABOVE = 1024 * 1024 + 1 };
    struct idem_entry *x;
    struct idem_answer a = {.status = 200, .type = "t", .body = STR("small")};
    rig_open(NULL);
    struct idem *t = rig.server->idem;
    CHECK_INT(idem__begin(t, OP_HEALTH, STR("small"), STR("/"), STR_NULL, &x, &a), IDEM_NEW);
    idem__finish(t, x, &a);
    CHECK_INT(idem__begin(t, OP_HEALTH, STR("large"), STR("/"), STR_NULL, &x, &a), IDEM_NEW);
    char *body = xcalloc(1, ABOVE);
    idem__finish(t, x, &(struct idem_answer){.status = 200, .type = "t", .body = {body, ABOVE}});
    free(body);
    CHECK_INT(idem__begin(t, OP_HEALTH, STR("small"), STR("/"), STR_NULL, &x, &a), IDEM_REPLAY);
    CHECK_SPAN(a.body, "small");
    CHECK_INT(idem__begin(t, OP_HEALTH, STR("large"), STR("/"), STR_NULL, &x, &a), IDEM_NEW);
    idem__drop(t, x);
    rig_close();
}

TEST(a_key_must_look_like_one)
{
    char key[300];
    rig_open(NULL);
    memset(key, 'k', sizeof key);
    key[255] = '\0';
    CHECK_INT(enable("a", key, NULL, 0), 200);
    key[255] = 'k';
    key[256] = '\0';
    CHECK_INT(enable("a", key, NULL, 0), 400);
    CHECK_INT(enable("a", "a b", NULL, 0), 400);
    CHECK_INT(enable("a", "", NULL, 0), 400);
    rig_close();
}
