#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/shipped.h"

extern const struct shipped shipped_plugins[]; // runtime/plugins

/// Put the plugins that come with the program where entries find them by name: the directory
/// `state/shipped/<build>`, written once for each build; what earlier builds left there goes. Returns
/// its path, which the caller frees, or NULL and `e`: such plugins are then not found. Blocks.
char *shipped_unpack(const char *state, const char *build, struct err *e);

/// Append their names, with commas between them.
void shipped_add_names(struct buf *out);
/// Is one of them called so?
bool shipped_has(struct str name);
