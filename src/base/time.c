// Clocks and RFC 3339 texts, with calendar arithmetic of our own.
//
// The C library's calendar reads the zone and the locale of the process, and some of it is not safe
// in threads. All times here are UTC; a date is turned into days by counting years from March, so
// that the leap day is the last day of a year and every 400 years are alike:
//
//     month    Mar Apr May Jun Jul Aug Sep Oct Nov Dec Jan Feb
//     index     0   1   2   3   4   5   6   7   8   9  10  11
//     before    0  31  61  92 122 153 184 214 245 275 306 337   = (153 * index + 2) / 5

#include "base/time.h"

#include <assert.h>
#include <inttypes.h>
#include <time.h>

enum { DAYS_PER_ERA = 146097, DAYS_TO_1970 = 719468 }; // era: 400 years from 0000-03-01

static const int64_t day_ms = 86400000;

struct date {
    int64_t year;
    unsigned month, day;
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

int64_t time_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t time_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t time_thread_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static struct date date_of(int64_t days)
{
    days += DAYS_TO_1970;
    int64_t era = floor_div(days, DAYS_PER_ERA);
    int64_t in_era = days - era * DAYS_PER_ERA;
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (year * 365 + year / 4 - year / 100);
    int64_t index = (5 * in_year + 2) / 153;
    return (struct date){
        .year = era * 400 + year + (index >= 10),
        .month = (unsigned)(index < 10 ? index + 3 : index - 9),
        .day = (unsigned)(in_year - (153 * index + 2) / 5 + 1),
    };
}

const char *time_format(int64_t wall_ms, char out[TIME_TEXT])
{
    int64_t rest = wall_ms % day_ms; // first, as multiplying the days back may overflow
    unsigned ms = (unsigned)(rest < 0 ? rest + day_ms : rest);
    struct date d = date_of(floor_div(wall_ms, day_ms));
    snprintf(out, TIME_TEXT, "%04" PRId64 "-%02u-%02uT%02u:%02u:%02u.%03uZ", d.year, d.month, d.day,
             ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
    return out;
}

// ---- reading: each step takes its part off the front of `s`, or says no ----------------------

static bool take_digits(struct str *s, size_t count, unsigned most, unsigned *out)
{
    uint64_t v;
    if (s->n < count || !str_to_u64((struct str){s->p, count}, &v) || v > most) {
        return false;
    }
    *s = str_from(*s, count);
    *out = (unsigned)v;
    return true;
}

static bool take_one_of(struct str *s, const char *set)
{
    if (s->n == 0 || s->p[0] == '\0' || strchr(set, s->p[0]) == NULL) {
        return false;
    }
    *s = str_from(*s, 1);
    return true;
}

static bool take_date(struct str *s, int64_t *days)
{
    unsigned year, month, day;
    if (!take_digits(s, 4, 9999, &year) || !take_one_of(s, "-") || !take_digits(s, 2, 12, &month) ||
        !take_one_of(s, "-") || !take_digits(s, 2, 31, &day) || month == 0 || day == 0 ||
        day > time_month_days(year, month)) {
        return false;
    }
    *days = time_days(year, month, day);
    return true;
}

// Second 60 is allowed, as RFC 3339 does for leap seconds; it counts as the one after.
static bool take_clock(struct str *s, int64_t *ms)
{
    unsigned hour, minute, second;
    if (!take_digits(s, 2, 23, &hour) || !take_one_of(s, ":") || !take_digits(s, 2, 59, &minute) ||
        !take_one_of(s, ":") || !take_digits(s, 2, 60, &second)) {
        return false;
    }
    *ms = ((hour * 60 + minute) * 60 + second) * 1000;
    return true;
}

static bool take_fraction(struct str *s, int64_t *ms)
{
    unsigned digit, weight = 100;
    if (!take_one_of(s, ".")) {
        return true;
    }
    if (!take_digits(s, 1, 9, &digit)) {
        return false;
    }
    do {
        *ms += digit * weight;
        weight /= 10;
    } while (take_digits(s, 1, 9, &digit));
    return true;
}

static bool take_offset(struct str *s, int64_t *ms)
{
    unsigned hour, minute;
    if (take_one_of(s, "Zz")) {
        return true;
    }
    bool west = s->n != 0 && s->p[0] == '-';
    if (!take_one_of(s, "+-") || !take_digits(s, 2, 23, &hour) || !take_one_of(s, ":") ||
        !take_digits(s, 2, 59, &minute)) {
        return false;
    }
    int64_t offset = (int64_t)(hour * 60 + minute) * 60000;
    *ms += west ? offset : -offset;
    return true;
}

bool time_parse(struct str s, int64_t *wall_ms)
{
    int64_t days, ms;
    if (!take_date(&s, &days) || !take_one_of(&s, "Tt ") || !take_clock(&s, &ms) ||
        !take_fraction(&s, &ms) || !take_offset(&s, &ms) || s.n != 0) {
        return false;
    }
    *wall_ms = days * day_ms + ms;
    return true;
}

int64_t time_days(int64_t year, unsigned month, unsigned day)
{
    unsigned index = (month + 9) % 12;
    year -= index >= 10;
    int64_t era = floor_div(year, 400);
    int64_t in_era = year - era * 400;
    int64_t in_year = (153 * index + 2) / 5 + day - 1;
    return era * DAYS_PER_ERA + in_era * 365 + in_era / 4 - in_era / 100 + in_year - DAYS_TO_1970;
}

unsigned time_month_days(int64_t year, unsigned month)
{
    assert(month >= 1 && month <= 12);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (month == 2) {
        return leap ? 29 : 28;
    }
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}
