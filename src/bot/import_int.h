#pragma once

#include "base/buf.h"
#include "bot/import.h"

// What import.c (bots, skills, memory) and import_history.c share.

enum { IMPORT_ENTRIES = 100000, IMPORT_FILE_BYTES = 64 << 20 };

struct import {
    struct shelf *shelf; // NULL: everything goes into files
    const char *home, *from;
    struct import_report *report;
    struct arena arena; // of paths; those of single sessions are freed one by one
};

/// Note what became of `name` ("a" or "a/b"); `fmt` may be NULL.
void import__note(struct import *im, enum import_outcome outcome, const char *kind,
                  const char *name, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/// Append the regular file at `path` to `out`; a symbolic link, and what is no file, is refused.
int import__read(const char *path, struct buf *out, struct err *e) MUST_CHECK;
bool import__is_dir(const char *path); // a directory itself, no link to one
/// The names in `dir`, sorted, hidden ones left out; the caller frees each and the array.
char **import__list(const char *dir, size_t *n);
void import__free_list(char **names, size_t n);

/// Remove what was being made; where that fails the next import does it.
void import__drop(const char *path);

/// Take over the sessions of `theirs` (".../history") into the workspace directory `ours`; `label` is
/// "bot/slug".
void import__history(struct import *im, const char *theirs, const char *ours, const char *label);
