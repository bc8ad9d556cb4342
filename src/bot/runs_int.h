#pragma once

#include "bot/ask.h"
#include "bot/runs.h"

/// Find the run of the parameter `id`; then `then` with its record as a->data, which the ask ends.
void runs__find(struct ask *a, ask_fn *then);
/// Answer with a record.
void runs__answer(struct ask *a, const struct record *rec);
