#pragma once

#include <sys/stat.h>

#include "base/err.h"

// A path, walked from the root part by part, with a say about each symbolic link on the way.

/// May this link be followed? 0, or a code that ends the walk.
typedef int walk_link_fn(void *arg, const char *link, const struct stat *st, struct err *e);

struct path_walk {
    char *real;    // the real path as far as it exists; after success all of it
    char *missing; // after ERR_NOT_FOUND the name that is not there; else NULL
    char *rest;    // what follows that name; "" for nothing
};

/// Walk the absolute `path`; `on_link` may be NULL: every link is followed. Blocks. ERR_NOT_FOUND when a part
/// of it is missing. The caller ends it with walk__fini(), in any case.
int walk__path(struct path_walk *w, const char *path, walk_link_fn *on_link, void *arg,
               struct err *e) MUST_CHECK;
void walk__fini(struct path_walk *w);
