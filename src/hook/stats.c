// What handlers cost: a histogram that is cheap to fill.
//
//     bucket   0     1     2    ...   7   |  8      9     10    ...  15   | 16 ...
//     ns      ..71  ..79  ..87  ... ..127 | ..143  ..159  ..175  ... ..255| ..287
//             └ all below 64 too
//
// The index of a time is its highest bit and the three bits after it, so filling costs no search and
// no division. A percentile is the upper end of the bucket in which it falls.

#include "hook/stats.h"

enum {
    LOW_BIT = 6,  // 64 ns
    SUB_BITS = 3, // eight buckets for each doubling
    SUB = 1 << SUB_BITS,
};

static size_t bucket_of(uint64_t ns)
{
    if (ns < (1U << LOW_BIT)) {
        return 0;
    }
    unsigned high = 63U - (unsigned)__builtin_clzll(ns);
    size_t at = (high - LOW_BIT) * SUB + ((ns >> (high - SUB_BITS)) & (SUB - 1));
    return MIN(at, (size_t)HOOK_STATS_BUCKETS - 1);
}

static void write_us(struct jw *w, const char *key, uint64_t ns)
{
    jw_key(w, key);
    jw_double(w, (double)ns / 1000);
}

void hook_stats_add(struct hook_stats *s, uint64_t ns)
{
    uint32_t *n = &s->bucket[bucket_of(ns)];
    s->count++;
    if (++*n == UINT32_MAX) { // halve all: proportions stay
        for (size_t i = 0; i < HOOK_STATS_BUCKETS; i++) {
            s->bucket[i] /= 2;
        }
    }
}

uint64_t hook_stats_percentile(const struct hook_stats *s, unsigned percent)
{
    uint64_t total = 0, seen = 0;
    for (size_t i = 0; i < HOOK_STATS_BUCKETS; i++) {
        total += s->bucket[i];
    }
    uint64_t want = (total * percent + 99) / 100;
    for (size_t i = 0; i < HOOK_STATS_BUCKETS && total != 0; i++) {
        seen += s->bucket[i];
        if (seen >= want) {
            unsigned high = LOW_BIT + (unsigned)(i / SUB);
            uint64_t width = 1ULL << (high - SUB_BITS);
            return (1ULL << high) + (i % SUB + 1) * width - 1;
        }
    }
    return 0;
}

void hook_stats_merge(struct hook_stats *to, const struct hook_stats *from)
{
    to->count += from->count;
    to->errors += from->errors;
    for (size_t i = 0; i < HOOK_STATS_BUCKETS; i++) {
        uint64_t sum = (uint64_t)to->bucket[i] + from->bucket[i];
        to->bucket[i] = (uint32_t)MIN(sum, UINT32_MAX - 1);
    }
}

void hook_stats_write(const struct hook_stats *s, struct jw *w)
{
    jw_obj(w);
    jw_kint(w, "count", (int64_t)s->count);
    jw_kint(w, "errors", (int64_t)s->errors);
    write_us(w, "p50_us", hook_stats_percentile(s, 50));
    write_us(w, "p99_us", hook_stats_percentile(s, 99));
    jw_end_obj(w);
}
