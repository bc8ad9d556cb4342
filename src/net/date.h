#pragma once

#include "base/str.h"

enum { DATE_TEXT = 30 }; // with its NUL

/// The time as HTTP's Date header wants it (IMF-fixdate): Sun, 15 Nov 2026 05:01:12 GMT
const char *date_format(int64_t wall_ms, char out[DATE_TEXT]);
