#pragma once

#include "base/base.h"

/// Fill `out` with random bytes of the kernel, fit for secrets. Cannot fail: a machine that has none aborts.
void random_bytes(void *out, size_t n);
/// Fill `out` with hexadecimal digits and a NUL: an id or a key. `size` is odd and at most 129.
void random_hex(char *out, size_t size);
