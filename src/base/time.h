#pragma once

#include "base/str.h"

/// Milliseconds since 1970, UTC.
int64_t time_wall_ms(void);
/// Never jumps; not comparable between boots.
uint64_t time_mono_ns(void);
/// Processor time that the calling thread has used. A system call: not for every step of a loop.
uint64_t time_thread_ns(void);

enum { TIME_TEXT = 64 }; // room for any text below, with its NUL

/// RFC 3339 in UTC with milliseconds: 2026-11-15T05:01:12.345Z
const char *time_format(int64_t wall_ms, char out[TIME_TEXT]);

/// The inverse, any offset and any number of fraction digits accepted (cut to milliseconds).
bool time_parse(struct str s, int64_t *wall_ms);

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar; dates are not checked.
int64_t time_days(int64_t year, unsigned month, unsigned day);
/// Days in a month, 28-31; month 1-12.
unsigned time_month_days(int64_t year, unsigned month);
