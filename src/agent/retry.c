// How long to wait before the next try, or not at all.
//
// Doubling spreads many clients over time, and the dice (a tenth either way) keep them from retrying at the same
// moment. A wait that the server asks for is the minimum: after a shorter one it would refuse again.

#include "agent/retry.h"

enum { BACKOFF_MAX_MS = 60 * 1000 };

bool retry_next(struct retry *r, const struct retry_policy *p, uint64_t now_ms, uint64_t asked_ms,
                uint64_t dice, uint64_t *wait_ms)
{
    if (r->failed++ == 0) {
        r->first_fail = now_ms;
    }
    if (r->failed >= p->tries || asked_ms > RETRY_PAUSE_MAX_MS) {
        return false;
    }
    uint64_t ms = p->first_ms;
    for (unsigned i = 1; i < r->failed && ms < BACKOFF_MAX_MS; i++) {
        ms *= 2;
    }
    ms = MIN(ms, (uint64_t)BACKOFF_MAX_MS);
    uint64_t own = ms * 9 / 10 + dice % (ms / 5 + 1);
    *wait_ms = MAX(own, asked_ms);
    return asked_ms > own || now_ms - r->first_fail + own <= p->total_ms;
}
