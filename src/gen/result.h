#pragma once

#include "base/json.h"

// What a tool answers, as the model and people see it: {output: text, success, error?}; for clients that show more
// than text also `content`, an array of MCP content blocks, and `structured`, an object, where the tool gives them.

/// Make one; `error` STR_NULL for none. Texts are borrowed.
struct json *gen_result_new(struct arena *a, struct str output, bool success, struct str error);
/// Whatever a tool returned as a result: an object that holds `output` is one already (`success` is true
/// unless it says otherwise or has an error), of one that holds an array `content` the texts in it are the output,
/// a text is the output, everything else is it as JSON. Shares strings with `v`.
struct json *gen_result_of(struct arena *a, const struct json *v);
