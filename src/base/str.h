#pragma once

#include "base/base.h"

/// A borrowed run of bytes, not NUL-terminated. `p` may be NULL only when `n` is 0.
struct str {
    const char *p;
    size_t n;
};

#define STR(lit)   ((struct str){"" lit, sizeof(lit) - 1}) // of a string literal
#define STR_NULL   ((struct str){NULL, 0})
#define STR_FMT    "%.*s" // printf("... " STR_FMT, STR_ARG(s))
#define STR_ARG(s) (int)MIN((s).n, (size_t)INT32_MAX), (s).p

struct str str_of(const char *z); // NULL gives STR_NULL
bool str_eq(struct str a, struct str b);
bool str_eqz(struct str a, const char *z);
bool str_caseeqz(struct str a, const char *z); // ASCII case only
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, const char *prefix);
bool str_ends(struct str s, const char *suffix);
/// Index of the first `c`, or -1.
ptrdiff_t str_index(struct str s, char c);
/// Split at the first `c`: returns what lies before it and moves `*rest` behind it. Without `c`
/// all of it is returned and `*rest` becomes STR_NULL.
struct str str_cut(struct str *rest, char c);
/// Without spaces, tabs, CR and LF at both ends.
struct str str_trim(struct str s);
struct str str_from(struct str s, size_t start); // `start` beyond the end gives an empty string
char *str_dup(struct str s);                     // NUL-terminated, caller frees

/// The whole of `s` as a decimal number. False on anything else, overflow included.
bool str_to_i64(struct str s, int64_t *out);
bool str_to_u64(struct str s, uint64_t *out);

/// Match `s` against a pattern where `*` stands for any run of bytes. Linear in s.n * pattern.n.
bool str_glob(struct str pattern, struct str s);

/// The candidate nearest to `word` by edit distance, or NULL when none is near enough to be meant.
const char *str_nearest(struct str word, const char *const *candidates, size_t n);

/// True when both hold the same bytes; takes the same time wherever they differ.
bool str_eq_secret(struct str a, struct str b);
