#pragma once

#include <dirent.h>

#include "base/base.h"

/// The names in a directory, one after the other, without "." and "..", in no order:
///
///     struct folder f = folder_open(path);
///     while (folder_next(&f)) { ... f.name ... }
struct folder {
    DIR *stream;        // NULL: it could not be opened, or is over
    const char *name;   // valid until the next
    unsigned char type; // DT_DIR, DT_REG ...; not every file system says it: DT_UNKNOWN
};

/// Begin. A directory that cannot be opened has no names; errno then says why.
struct folder folder_open(const char *path);
/// Go to the next name. False at the end, where it closes itself. Blocks.
bool folder_next(struct folder *f);
/// End it before its end, or after.
void folder_close(struct folder *f);
