#pragma once

#include "base/base.h"

// When to ask a provider again. Numbers only: no clock, no timer, no network; the caller brings the
// time and the dice.

/// The settings of [retry].
struct retry_policy {
    unsigned tries;    // in all, the first one included
    uint64_t first_ms; // before the second try; doubles from there on
    uint64_t total_ms; // no try begins later than this after the first failure
    uint64_t idle_ms;  // without progress a try counts as cut
};

/// A provider that asks for a longer pause than this is not waited for.
enum { RETRY_PAUSE_MAX_MS = 60 * 60 * 1000 };

/// One request's tries. Zeroed before the first one.
struct retry {
    unsigned failed;     // tries that did not end well
    uint64_t first_fail; // when the first of them failed
};

/// A try failed at `now_ms`, and the provider asked for `asked_ms` (0: for nothing) before the next.
/// `dice` is any random number. Returns true with the pause in `*wait_ms`, false when it is time to
/// give up: tries are used up, or the pause would end after total_ms. What the provider asks for is
/// the minimum, and may pass total_ms, but not RETRY_PAUSE_MAX_MS.
bool retry_next(struct retry *r, const struct retry_policy *p, uint64_t now_ms, uint64_t asked_ms,
                uint64_t dice, uint64_t *wait_ms);
