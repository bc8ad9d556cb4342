#pragma once

#include "base/buf.h"
#include "base/toml.h"

// What toml.c (tree and grammar), toml_lex.c (characters, keys, strings) and toml_scalar.c
// (numbers, dates) share.

struct toml__place {
    uint32_t line, col;
};

/// The text and how far it has been read. After toml__open() has returned 0, all of it is well-formed UTF-8
/// without control characters: toml__peek() returns NUL at the end only.
struct toml__src {
    const char *at, *end;
    uint32_t line;     // of `at`
    const char *mark;  // somewhere on this line, at or before `at`
    uint32_t mark_col; // column of `mark`
    struct buf tmp;    // the quoted string read last
    struct toml__place bad;
    char why[240]; // what is wrong at `bad`; set by toml__fail()
};

/// Begin reading `text` (borrowed) and refuse characters that no document may contain. A byte order
/// mark at the start is skipped. Call toml__close() also after a failure.
int toml__open(struct toml__src *s, struct str text) MUST_CHECK;
void toml__close(struct toml__src *s);

/// Note what is wrong and where; returns ERR_PARSE.
int toml__fail(struct toml__src *s, struct toml__place at, const char *fmt, ...) PRINTF_LIKE(3, 4);
/// Fail here with "expected <what>, found <the next character>".
int toml__unexpected(struct toml__src *s, const char *what);

/// Where `at` is. Asking again and again costs no more than the text between.
struct toml__place toml__here(struct toml__src *s);

char toml__peek(const struct toml__src *s);
bool toml__eat(struct toml__src *s, char c); // true when `c` was next and was skipped
void toml__skip_blank(struct toml__src *s);  // spaces and tabs
void toml__skip_lines(struct toml__src *s);  // these, line ends and comments
/// Skip blanks and a comment; then the line or the text must end.
int toml__end_line(struct toml__src *s) MUST_CHECK;

bool toml__is_bare(char c); // allowed in a key without quotes
/// One part of a key, bare or quoted. `*out` is borrowed until the next key or string.
int toml__key(struct toml__src *s, struct str *out) MUST_CHECK;
/// A string of any of the four kinds. `*out` as above.
int toml__string(struct toml__src *s, struct str *out) MUST_CHECK;
/// The characters of a number, date, time or word, borrowed from the text; may be empty.
struct str toml__token(struct toml__src *s);

/// Read `token` as boolean, number, date or time into `v` (type and value only). Returns NULL, or
/// what is wrong with it, to be put after the quoted token.
const char *toml__scalar(struct toml *v, struct arena *a, struct str token);
