#include "hook/stats.h"
#include "unit/test.h"

static void check_near(uint64_t have, uint64_t want)
{
    if (have < want || have > want + want / 8 + 64) {
        test_fail(__FILE__, __LINE__, "%llu is not a little above %llu", (unsigned long long)have,
                  (unsigned long long)want);
    }
}

TEST(nothing_counted_is_zero)
{
    struct hook_stats s = {0};
    CHECK_INT(hook_stats_percentile(&s, 50), 0);
    CHECK_INT(hook_stats_percentile(&s, 99), 0);
}

TEST(percentiles_are_right_to_an_eighth)
{
    struct hook_stats s = {0};
    for (uint64_t i = 1; i <= 10000; i++) {
        hook_stats_add(&s, i * 1000); // 1 us to 10 ms
    }
    CHECK_INT(s.count, 10000);
    check_near(hook_stats_percentile(&s, 50), 5000000);
    check_near(hook_stats_percentile(&s, 99), 9900000);
    check_near(hook_stats_percentile(&s, 1), 100000);
}

TEST(one_slow_call_in_a_hundred_does_not_move_the_median)
{
    struct hook_stats s = {0};
    for (int i = 0; i < 99; i++) {
        hook_stats_add(&s, 200);
    }
    hook_stats_add(&s, 1000000000);
    check_near(hook_stats_percentile(&s, 50), 200);
    check_near(hook_stats_percentile(&s, 99), 200);
    check_near(hook_stats_percentile(&s, 100), 1000000000);
}

TEST(any_time_has_a_bucket)
{
    struct hook_stats s = {0};
    for (unsigned bit = 0; bit < 64; bit++) {
        hook_stats_add(&s, 1ULL << bit);
        hook_stats_add(&s, (1ULL << bit) - 1);
    }
    hook_stats_add(&s, UINT64_MAX);
    CHECK_INT(s.count, 129);
    CHECK(hook_stats_percentile(&s, 100) > 60000000000ULL);
}

TEST(a_full_bucket_keeps_the_proportions)
{
    struct hook_stats s = {0};
    hook_stats_add(&s, 100);
    hook_stats_add(&s, 1000000);
    for (size_t i = 0; i < HOOK_STATS_BUCKETS; i++) {
        s.bucket[i] *= UINT32_MAX - 1;
    }
    hook_stats_add(&s, 100);
    check_near(hook_stats_percentile(&s, 50), 100);
    check_near(hook_stats_percentile(&s, 99), 1000000);
}

TEST(merged_statistics_are_those_of_both)
{
    struct hook_stats a = {0}, b = {.errors = 2};
    struct buf out;
    struct jw w;
    for (int i = 0; i < 3; i++) {
        hook_stats_add(&a, 1000);
        hook_stats_add(&b, 1000000);
    }
    hook_stats_merge(&a, &b);
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    hook_stats_write(&a, &w);
    CHECK_STR(buf_z(&out), "{\"count\":6,\"errors\":2,\"p50_us\":1.023,\"p99_us\":1048.575}");
    buf_fini(&out);
}
