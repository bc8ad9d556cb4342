#pragma once

#include "term/edit.h"

// What could follow what is typed: commands, files, programs.

struct menu {
    vec(char *) names;
    size_t from;   // where a name goes in the input
    size_t chosen; // the one that is there; names.n: none
};

/// Offer, by menu_offer(), the names of `kind` that begin with `start`: '/' commands, '@' resources, ' ' the last word of
/// `start`, which is a command with words after it.
typedef void menu_more(void *arg, struct menu *m, char kind, struct str start);

/// Complete what is before the cursor, or offer what could be; called again, take the next of them. Files are those below
/// `dir`.
void menu_complete(struct menu *m, struct edit *ed, const char *dir, menu_more *more, void *arg);
/// Offer one name more; copied.
void menu_offer(struct menu *m, struct str name);
/// Offer nothing any more.
void menu_close(struct menu *m);
