#pragma once

#include "hook/set.h"

/// What keeps the set alive during runs; its functions may be NULL.
const struct hook_keeper *hook__keeper(const struct hook_set *s);
