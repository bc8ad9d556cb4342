// Borrowed strings: compare, cut, convert, and find the nearest word to a misspelt one.

#include "base/str.h"

#include <assert.h>

struct str str_of(const char *z)
{
    return (struct str){z, z != NULL ? strlen(z) : 0};
}

bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_eqz(struct str a, const char *z)
{
    return str_eq(a, str_of(z));
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

bool str_caseeqz(struct str a, const char *z)
{
    size_t i = 0;
    while (i < a.n && z[i] != '\0' && lower(a.p[i]) == lower(z[i])) {
        i++;
    }
    return i == a.n && z[i] == '\0';
}

int str_cmp(struct str a, struct str b)
{
    size_t n = MIN(a.n, b.n);
    int d = n != 0 ? memcmp(a.p, b.p, n) : 0;
    return d != 0 ? d : (a.n > b.n) - (a.n < b.n);
}

bool str_starts(struct str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.n >= n && (n == 0 || memcmp(s.p, prefix, n) == 0);
}

bool str_ends(struct str s, const char *suffix)
{
    size_t n = strlen(suffix);
    return s.n >= n && (n == 0 || memcmp(s.p + s.n - n, suffix, n) == 0);
}

ptrdiff_t str_index(struct str s, char c)
{
    const char *p = s.n != 0 ? memchr(s.p, c, s.n) : NULL;
    return p != NULL ? p - s.p : -1;
}

struct str str_cut(struct str *rest, char c)
{
    struct str head = *rest;
    ptrdiff_t i = str_index(head, c);
    if (i < 0) {
        *rest = STR_NULL;
        return head;
    }
    *rest = str_from(head, (size_t)i + 1);
    head.n = (size_t)i;
    return head;
}

size_t str_lines(struct str s)
{
    size_t n = 0;
    for (; s.n != 0; n++) {
        str_cut(&s, '\n');
    }
    return n;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
    while (s.n != 0 && is_space(s.p[0])) {
        s = str_from(s, 1);
    }
    while (s.n != 0 && is_space(s.p[s.n - 1])) {
        s.n--;
    }
    return s;
}

struct str str_from(struct str s, size_t start)
{
    assert(s.p != NULL || s.n == 0);
    start = MIN(start, s.n);
    return (struct str){s.p != NULL ? s.p + start : NULL, s.n - start};
}

char *str_dup(struct str s)
{
    return xstrndup(s.p != NULL ? s.p : "", s.n);
}

ptrdiff_t str_lookup(struct str word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eqz(word, words[i])) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t str_count(const char *const *list)
{
    size_t n = 0;
    while (list != NULL && list[n] != NULL) {
        n++;
    }
    return n;
}

const char *str_env(const char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; env != NULL && *env != NULL; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') {
            return *env + n + 1;
        }
    }
    return NULL;
}

void str_sort(const char **words, size_t n)
{
    if (n != 0) {
        qsort(words, n, sizeof *words, by_bytes);
    }
}

bool str_to_u64(struct str s, uint64_t *out)
{
    uint64_t v = 0;
    if (s.n == 0) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        unsigned digit = (unsigned char)s.p[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, digit, &v)) {
            return false;
        }
    }
    *out = v;
    return true;
}

bool str_to_i64(struct str s, int64_t *out)
{
    bool negative = s.n != 0 && s.p[0] == '-';
    uint64_t v;
    if (!str_to_u64(negative ? str_from(s, 1) : s, &v) || v > (uint64_t)INT64_MAX + negative) {
        return false;
    }
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool str_glob(struct str pattern, struct str s)
{
    size_t p = 0, i = 0, star = SIZE_MAX, mark = 0;
    while (i < s.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            star = p++;
            mark = i;
        } else if (p < pattern.n && pattern.p[p] == s.p[i]) {
            p++;
            i++;
        } else if (star != SIZE_MAX) { // let the last star eat one byte more
            p = star + 1;
            i = ++mark;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*') {
        p++;
    }
    return p == pattern.n;
}

// Levenshtein distance with adjacent swaps counted as one; both words are short.
static size_t distance(struct str a, struct str b)
{
    enum { LONGEST = 64 };
    size_t row[3][LONGEST + 1];
    if (a.n > LONGEST || b.n > LONGEST) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= b.n; j++) {
        row[0][j] = j;
    }
    for (size_t i = 1; i <= a.n; i++) {
        size_t *cur = row[i % 3], *prev = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        cur[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t change = prev[j - 1] + (a.p[i - 1] != b.p[j - 1]);
            size_t d = MIN(change, MIN(prev[j], cur[j - 1]) + 1);
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1]) {
                d = MIN(d, before[j - 2] + 1);
            }
            cur[j] = d;
        }
    }
    return row[a.n % 3][b.n];
}

const char *str_nearest(struct str word, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    size_t best_distance = MIN(MAX(word.n / 3, 1) + 1, word.n); // one letter is never a slip
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, str_of(candidates[i]));
        if (d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}

bool str_eq_secret(struct str a, struct str b)
{
    unsigned char diff = a.n != b.n;
    for (size_t i = 0; i < a.n; i++) {
        diff |= (unsigned char)(a.p[i] ^ (b.n != 0 ? b.p[i % b.n] : 0));
    }
    return diff == 0;
}
