#pragma once

#include <dirent.h>

#include "base/base.h"

/// The names in a directory, one after the other, without "." and "..", in no order:
///
///     struct folder f = folder_open(path);
///     while (folder_next(&f)) { ... f.name ... }
struct folder {
    DIR *stream;        // NULL: it could not be opened, or has ended
    const char *name;   // valid until the next
    unsigned char type; // DT_DIR, DT_REG ...; not every file system says it: DT_UNKNOWN
};

/// Begin. A directory that cannot be opened has no names; errno says why.
struct folder folder_open(const char *path);
/// Read the next name. False at the end; the directory is closed then. Blocks.
bool folder_next(struct folder *f);
/// Close the directory before its end; afterwards it does nothing.
void folder_close(struct folder *f);
