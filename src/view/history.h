#pragma once

#include "term/edit.h"

// What was said in a project, shared by its chats and full-screen interfaces. Small files, read and written at once.

/// The file for the project that `dir` is in, below AFLOAT_HOME `home`; NULL when it is in none. Caller frees.
char *history_path(const char *home, const char *dir);
/// Read what was said before; `path` may be NULL.
void history_load(struct edit *ed, const char *path);
/// Remember a text, here and for later chats; `path` may be NULL.
void history_add(struct edit *ed, const char *path, struct str text);
