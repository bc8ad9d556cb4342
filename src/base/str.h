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

/// NULL gives STR_NULL.
struct str str_of(const char *z);
/// Compare bytes; str_caseeqz() ignores ASCII case, str_cmp() orders like strcmp().
bool str_eq(struct str a, struct str b);
bool str_eqz(struct str a, const char *z);
bool str_caseeqz(struct str a, const char *z);
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, const char *prefix);
bool str_ends(struct str s, const char *suffix);
/// Index of the first `c`, or -1.
ptrdiff_t str_index(struct str s, char c);
/// Split at the first `c`: return what is before it and move `*rest` past it. Without `c` all of it is
/// returned and `*rest` becomes STR_NULL.
struct str str_cut(struct str *rest, char c);
/// How many lines it has; the last may lack its newline.
size_t str_lines(struct str s);
/// Without spaces, tabs, CR and LF at both ends.
struct str str_trim(struct str s);
/// The part from `start`; empty when that is beyond the end.
struct str str_from(struct str s, size_t start);
/// A NUL-terminated copy; the caller frees it.
char *str_dup(struct str s);
/// Index of `word` in `words`, or -1.
ptrdiff_t str_lookup(struct str word, const char *const *words, size_t n);
/// How many strings a list has that ends with NULL; 0 for NULL.
size_t str_count(const char *const *list);
/// The value of `name` in an environment: "NAME=value" strings, NULL at its end. NULL when it is not there, or
/// `env` is NULL.
const char *str_env(const char *const *env, const char *name);
/// Sort C strings by bytes. `words` may be NULL when `n` is 0.
void str_sort(const char **words, size_t n);

/// The whole of `s` as a decimal number. False on anything else, overflow included.
bool str_to_i64(struct str s, int64_t *out);
bool str_to_u64(struct str s, uint64_t *out);

/// Match `s` against a pattern where `*` stands for any run of bytes. Linear in s.n * pattern.n.
bool str_glob(struct str pattern, struct str s);

/// The candidate nearest to `word` by edit distance, or NULL when none is near enough to be meant.
const char *str_nearest(struct str word, const char *const *candidates, size_t n);

/// True when both hold the same bytes; takes the same time wherever they differ.
bool str_eq_secret(struct str a, struct str b);
