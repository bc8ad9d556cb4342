#pragma once

#include "cli/ask.h"

/// Print the report of a reload for people: the generation, a line for each unit that is not simply
/// kept, a line or two for each problem and need.
void report_print(struct out *o, const struct json *report);

/// Only what is wrong and what is needed; for `afloat status`.
void report_print_problems(struct out *o, const struct json *report);
