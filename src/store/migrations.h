#pragma once

#include "base/shipped.h"

/// The scripts of src/store/migrations, sorted by name.
extern const struct shipped store_migrations[];
