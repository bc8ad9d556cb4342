#pragma once

#include "base/buf.h"

/// Write the interface as an OpenAPI 3.1 document, made from the tables of operations and problems.
void openapi_write(struct buf *out, const char *version);
