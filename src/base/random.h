#pragma once

#include "base/base.h"

/// Fill `out` with random bytes from the kernel, fit for secrets. Aborts if the kernel has none.
void random_bytes(void *out, size_t n);
/// Fill `out` with hexadecimal digits and a NUL: an id or a key. `size` is odd and at most 129.
void random_hex(char *out, size_t size);
