#include "agent/retry.h"
#include "unit/test.h"

static const struct retry_policy policy = {
    .tries = 5, .first_ms = 200, .total_ms = 60000, .idle_ms = 300000};

TEST(pauses_double_with_a_tenth_of_jitter)
{
    static const uint64_t means[] = {200, 400, 800, 1600};
    uint64_t low[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}, high[4] = {0};
    for (uint64_t dice = 0; dice < 1000; dice++) {
        struct retry r = {0};
        for (int i = 0; i < 4; i++) {
            uint64_t wait;
            CHECK(retry_next(&r, &policy, 1000, 0, dice * 7919, &wait));
            low[i] = MIN(low[i], wait);
            high[i] = MAX(high[i], wait);
        }
        uint64_t wait;
        CHECK(!retry_next(&r, &policy, 1000, 0, dice, &wait));
    }
    for (int i = 0; i < 4; i++) {
        CHECK_INT(low[i], means[i] * 9 / 10);
        CHECK_INT(high[i], means[i] * 11 / 10);
    }
}

TEST(what_the_provider_asks_for_is_the_least)
{
    struct retry r = {0};
    uint64_t wait;
    CHECK(retry_next(&r, &policy, 1000, 50, 0, &wait));
    CHECK_INT(wait, 180);
    CHECK(retry_next(&r, &policy, 1000, 5000, 0, &wait));
    CHECK_INT(wait, 5000);
}

TEST(patience_ends_a_minute_after_the_first_failure_unless_asked_for_more)
{
    struct retry r = {0};
    uint64_t wait;
    CHECK(retry_next(&r, &policy, 1000, 0, 0, &wait));
    CHECK(retry_next(&r, &policy, 60000, 0, 0, &wait));
    CHECK(!retry_next(&r, &policy, 61000, 0, 0, &wait));
    r = (struct retry){0};
    CHECK(retry_next(&r, &policy, 1000, 90000, 0, &wait));
    CHECK_INT(wait, 90000);
    CHECK(retry_next(&r, &policy, 91000, 90000, 0, &wait));
    CHECK(!retry_next(&r, &policy, 181000, RETRY_PAUSE_MAX_MS + 1, 0, &wait));
}

TEST(a_long_row_of_failures_does_not_wait_longer_than_a_minute_each)
{
    struct retry_policy patient = {.tries = 100, .first_ms = 200, .total_ms = UINT64_MAX};
    struct retry r = {0};
    uint64_t wait = 0;
    for (int i = 0; i < 99; i++) {
        CHECK(retry_next(&r, &patient, 1000, 0, UINT64_MAX, &wait));
        CHECK(wait <= 66000);
    }
    CHECK(wait >= 54000);
}
