#pragma once

#include "api/op.h"

// One handler per row of proto/ops.def; they live in one file per noun.
#define OP(id, ...) op_fn op_##id;
#include "proto/ops.def"
#undef OP
