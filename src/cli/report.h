#pragma once

#include "cli/call.h"

// The report of a reload as people read it.

/// Print the generation, a line for each plugin that is not simply kept, and all problems.
void report_print(struct out *o, const struct json *report);
/// Print only problems and needs: `diagnostics` and `needs` of a report or of a plugin's row.
void report_print_problems(struct out *o, const struct json *v);

/// `print` and `judge` of forms (call.h) whose answer is a report, or has one as its member `report`.
void report_show(struct cli *c, const struct json *v);
int report_judge(struct cli *c, const struct json *v);
