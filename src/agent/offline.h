#pragma once

#include "base/json.h"

/// The answer of the offline model to `request` (neutral form, see agent/provider.h): a scene as in a
/// scenario file, with `text` and at most one of `tool_calls`. The same request always gets the same
/// scene. It is in `a` and does not refer to the request.
struct json *offline_scene(struct arena *a, const struct json *request);
