#pragma once

#include <stdint.h>

#include "base/str.h"

/// The CRC-32C (Castagnoli) of `s`: any burst of up to 32 wrong bits is found, and any one, two or three
/// single ones in lines of the sizes that we write.
uint32_t crc32c(struct str s);
/// The same without the processor's own instruction, for tests.
uint32_t crc32c_by_table(struct str s);
