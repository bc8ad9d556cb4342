#pragma once

#include "base/json.h"

// What reading a request and writing its answer have to agree on.

/// The one member of a custom tool's input.
#define RESPONSES_CUSTOM_INPUT "input"

/// `encrypted_content` of a reasoning item that a provider of ours made: this, then base64 of the neutral item.
#define RESPONSES_SEAL "afloat1."

/// The name of a tool of a namespace as providers know it; `name` itself without one.
struct str responses__flat_name(struct arena *a, struct str space, struct str name);
