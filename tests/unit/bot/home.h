#pragma once

// A home of the test's own, with files in it.

#include "base/err.h"
#include "base/json.h"
#include "unit/test.h"

/// Path of a file below the test's directory, in one of a few static buffers.
const char *at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/// Write a file, with its directories; `rel` as in at().
void put_file(const char *rel, const char *text);
void put_bytes(const char *rel, struct str bytes);
void make_dir(const char *rel);

/// The text of a file, "" when it is missing; lives until the test ends.
const char *text_of(const char *path);
bool is_there(const char *path);
/// Names in a directory, `.` and `..` left out.
size_t count_in(const char *path);
/// Run `work(n)` in `n` processes at once, n = 0, 1, ...; fails when one of them does.
void in_processes(int n, void (*work)(int i));
