#pragma once

#include "store/tree.h"

/// Set `t->hash` from its files, which must be sorted.
void tree__hash(struct tree *t);
