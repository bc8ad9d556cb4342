#include <time.h>

#include "base/time.h"
#include "unit/test.h"

TEST(days_agree_with_the_c_library_for_eight_hundred_years)
{
    for (int64_t day = -146097; day <= 146097; day++) {
        time_t t = (time_t)(day * 86400);
        struct tm tm;
        char text[TIME_TEXT], want[128];
        CHECK(gmtime_r(&t, &tm) != NULL);
        int64_t year = (int64_t)tm.tm_year + 1900;
        unsigned month = (unsigned)tm.tm_mon + 1, mday = (unsigned)tm.tm_mday;
        CHECK_INT(time_days(year, month, mday), day);
        CHECK(mday <= time_month_days(year, month));
        snprintf(want, sizeof want, "%04d-%02u-%02uT00:00:00.000Z", (int)year, month, mday);
        CHECK_STR(time_format(day * 86400000, text), want);
    }
}

TEST(a_month_has_as_many_days_as_reach_the_next)
{
    for (int64_t year = 1896; year <= 2104; year++) {
        for (unsigned month = 1; month <= 12; month++) {
            int64_t next = month < 12 ? time_days(year, month + 1, 1) : time_days(year + 1, 1, 1);
            CHECK_INT(time_month_days(year, month), next - time_days(year, month, 1));
        }
    }
}

TEST(times_before_1970_count_down_to_it)
{
    char text[TIME_TEXT];
    CHECK_STR(time_format(-1, text), "1969-12-31T23:59:59.999Z");
    CHECK_STR(time_format(0, text), "1970-01-01T00:00:00.000Z");
    CHECK_STR(time_format(1794718872345, text), "2026-11-15T05:01:12.345Z");
}

TEST(the_farthest_times_still_fit)
{
    char text[TIME_TEXT];
    CHECK_STR(time_format(INT64_MAX, text), "292278994-08-17T07:12:55.807Z");
    CHECK_STR(time_format(INT64_MIN, text), "-292275055-05-16T16:47:04.192Z");
}

TEST(what_is_formatted_can_be_parsed)
{
    static const int64_t times[] = {0, -1, 1, 1794718872345, -62167219200000, 253402300799999};
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        char text[TIME_TEXT];
        int64_t back;
        CHECK(time_parse(str_of(time_format(times[i], text)), &back));
        CHECK_INT(back, times[i]);
    }
}

TEST(offsets_and_fractions_are_understood)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01 00:00:00Z", 0},
        {"1970-01-01T01:30:00+01:30", 0},
        {"1969-12-31T18:30:00-05:30", 0},
        {"1970-01-01T00:00:00.1Z", 100},
        {"1970-01-01T00:00:00.0019999999999999999999999Z", 1},
        {"1969-12-31T23:59:59.9Z", -100},
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"2024-02-29T00:00:00Z", 1709164800000},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ms = -7;
        if (!time_parse(str_of(rows[i].text), &ms) || ms != rows[i].ms) {
            test_fail(__FILE__, __LINE__, "%s is %lld", rows[i].text, (long long)ms);
        }
    }
}

TEST(malformed_times_are_refused)
{
    static const char *const bad[] = {
        "",
        "1970",
        "1970-01-01",
        "1970-01-01T00:00:00",
        "1970-01-01T00:00Z",
        "1970-00-01T00:00:00Z",
        "1970-13-01T00:00:00Z",
        "1970-01-00T00:00:00Z",
        "1970-04-31T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:61Z",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00,5Z",
        "1970-01-01T00:00:00+0100",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+01:60",
        "1970-01-01T00:00:00Zx",
        "+970-01-01T00:00:00Z",
        "1970-1-01T00:00:00Z",
        " 1970-01-01T00:00:00Z",
        "1970-01-01X00:00:00Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t ms = -7;
        if (time_parse(str_of(bad[i]), &ms) || ms != -7) {
            test_fail(__FILE__, __LINE__, "'%s' was taken for %lld", bad[i], (long long)ms);
        }
    }
    int64_t ms;
    CHECK(!time_parse(STR("1970-01-01\00000:00:00Z"), &ms));
}

TEST(the_clocks_go_forward)
{
    uint64_t before = time_mono_ns();
    CHECK(time_wall_ms() > 1700000000000);
    CHECK(time_mono_ns() >= before);
}
