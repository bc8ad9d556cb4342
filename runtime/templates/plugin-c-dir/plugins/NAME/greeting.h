#pragma once

#include <afloat/plugin.h>

/// "Hello, NAME!" in `out`; louder when people switched `afloat feature enable @NAME@:loud`.
const char *greet(struct afloat_call *c, const char *name, char *out, size_t n);
