#pragma once

#include "base/map.h"

// In which directories sessions work, and to which project each directory belongs. For parts that keep something
// open as long as a session works in a project. See stays.c. Plain memory, without a thread.

struct stays {
    struct map dirs;  // real path -> struct stay
    struct map roots; // of a project with sessions -> how many of its directories have some
};

/// Start empty; free everything.
void stays_init(struct stays *s);
void stays_fini(struct stays *s);

/// One more session works in the real directory `dir`, which belongs to the project at `root` (NULL: to
/// none); from now on all in `dir` do.
void stays_enter(struct stays *s, const char *dir, const char *root);
/// One session less. Nothing happens when there is none.
void stays_leave(struct stays *s, const char *dir);
/// Walk the directories with sessions: `size_t at = 0; while ((dir = stays_next(s, &at)).p != NULL)`. No session may
/// enter or leave meanwhile.
struct str stays_next(const struct stays *s, size_t *at);
/// Does a session work in this project?
bool stays_has(const struct stays *s, const char *root);
