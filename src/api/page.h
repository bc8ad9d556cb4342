#pragma once

#include "api/op.h"

// Pages of lists that are made whole (OP_PAGES): an operation answers with all rows, and these cut the page that
// `limit` and `cursor` ask for. A cursor is the number of rows before the page.

/// Are `limit` and `cursor` of the call sound? False: it is answered with what is wrong.
bool page_check(struct op_call *c);
/// The page of `whole`, {<plural>: [...], ..., next}, in the call's arena; `whole` itself when no page was asked for.
struct str page_cut(struct op_call *c, struct str whole);
