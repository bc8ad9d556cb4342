#pragma once

// Files of a test's own directory, by relative paths.

const char *at(const char *rel);             // absolute; borrowed until a few calls later
void put(const char *rel, const char *text); // with its directories
