#pragma once

#include "base/str.h"

/// Called with the path of a file, relative to the project's root or absolute; borrowed for the call.
typedef void trust_source_cb(const char *path, void *arg);

/// What the file `name` (relative to the project's root) with the bytes `text` reads in its turn, as far as
/// its text says so: `source` and `.` of a shell script, paths in a .nix file, imports of a devenv.yaml. Where the
/// text does not say whether a directory is meant, both it and the file in it are told.
/// A path that is put together when it runs (`source "$dir/x"`) is not found. Touches no file.
void trust_sources(const char *name, struct str text, trust_source_cb *cb, void *arg);
