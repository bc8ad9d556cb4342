#pragma once

#include "base/json.h"

/// The answer of the offline model to `request` (neutral form, see agent/provider.h): a scene as a
/// scenario file would hold it, with `text` and at most one of `tool_calls`. The same request always
/// gets the same scene. Everything of it lies in `a`; the request may go.
struct json *offline_scene(struct arena *a, const struct json *request);
