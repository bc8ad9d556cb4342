#pragma once

#include "base/shipped.h"

/// runtime/scaffold: "file.lua" is a plugin in one file, "dir/..." one in a directory. @NAME@ stands for
/// the plugin's name, @TOOL@ for the same as the beginning of a tool's name.
extern const struct shipped scaffold[];
