#pragma once

#include "base/json.h"

enum { HOOK_STATS_BUCKETS = 240 };

/// What a handler cost so far: a histogram of times, eight buckets for each doubling from 64 ns to
/// over a minute, so that a percentile is right to an eighth. Zeroed memory is an empty one.
struct hook_stats {
    uint64_t count;  // times entered and ended
    uint64_t errors; // of these, failed or ran out of time
    uint32_t bucket[HOOK_STATS_BUCKETS];
};

/// Count one run of `ns` nanoseconds.
void hook_stats_add(struct hook_stats *s, uint64_t ns);
/// The time that `percent` of the calls did not pass, in nanoseconds; 0 when there were none.
uint64_t hook_stats_percentile(const struct hook_stats *s, unsigned percent);
/// Add the counts of `from`.
void hook_stats_merge(struct hook_stats *to, const struct hook_stats *from);
/// {count, errors, p50_us, p99_us}
void hook_stats_write(const struct hook_stats *s, struct jw *w);
