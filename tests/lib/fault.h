#pragma once

// Make the n-th call of a kind fail. Linked into test programs only, by -Wl,--wrap=CALL (see
// tests/meson.build): the product has no switch for it.

#include <stdbool.h>

/// From now on the `n`-th call (1 = the next) of any wrapped kind fails with `error` (an errno);
/// with `forever` all later ones too, as on a full disk. Counting starts anew.
void fault_at(unsigned long n, int error, bool forever);
void fault_off(void);
/// Calls seen since fault_at(), and how many of them were made to fail.
unsigned long fault_calls(void);
unsigned long fault_hits(void);
/// While syncs are held, fdatasync() does not come back: a disk that is slow. Letting go wakes all.
void fault_hold_syncs(bool held);
unsigned fault_syncs_held(void); // how many wait now
/// For wrappers: count a call; true, with errno set, when it is to fail.
bool fault_due(void);
