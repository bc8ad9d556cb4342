#pragma once

/// What the cases of libs_suite.def use; DIR is set before.
#define SUITE_PRELUDE                                                                              \
    "function STRIP(s) local i, j = s:find(DIR, 1, true) "                                         \
    "return i and s:sub(1, i - 1) .. s:sub(j + 1) or s end "                                       \
    "function WHY(f, ...) return (select(2, pcall(f, ...)):gsub('^/[^:]*:%d+: ', '')) end "
