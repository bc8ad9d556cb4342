#pragma once

#include "base/shipped.h"

extern const struct shipped shipped_templates[]; // runtime/templates: "<template>/<path>"
