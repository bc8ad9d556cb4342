#pragma once

#include "base/map.h"

// Who works where: directories with somebody in them, and the project that each belongs to. For parts that
// keep something open as long as anybody works in a project. See stays.c. Plain memory, without a thread.

struct stays {
    struct map dirs;  // real path -> struct stay
    struct map roots; // of a project with somebody in it -> how many directories of it
};

/// Start empty; free everything.
void stays_init(struct stays *s);
void stays_fini(struct stays *s);

/// One more session works in the real directory `dir`, which belongs to the project at `root` (NULL: to
/// none); from now on all in `dir` do.
void stays_enter(struct stays *s, const char *dir, const char *root);
/// One less. Nothing happens when nobody is there.
void stays_leave(struct stays *s, const char *dir);
/// Walk the directories with somebody in them: `size_t at = 0; while ((dir = stays_next(s, &at)).p != NULL)`. Nobody may
/// come or go meanwhile.
struct str stays_next(const struct stays *s, size_t *at);
/// Does anybody work in this project?
bool stays_has(const struct stays *s, const char *root);
