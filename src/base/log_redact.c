// Find secrets in text, and put "[redacted]" in their place.
//
// redact.c has replaced the known secrets before. This file knows no secrets, only the places where they
// are written:
//
//     Authorization: Bearer X     token=X     api_key = "X"     "client_secret": "X"     sk-X
//                           ^           ^                ^                       ^       ^
//
// It reads word by word (letters, digits, `_`, `-`) and asks of each: is it a key of `keys`, with a
// separator and a value after it; is it "bearer"; does it hold "sk-..."? All else is copied. Text
// that was JSON stays JSON: a value ends at its closing quote, escaped quotes are stepped over, and
// a text nested in a string (\"token\":\"X\") is read like any other.
//
// Time is linear in the text: words and values are each looked at once. In doubt it hides more, never less.

#include "base/log_int.h"

static const char hidden[] = "[redacted]";

enum { SHORTEST_SK = 8 }; // after "sk-"; a shorter one is a word

// ---- what looks like one -------------------------------------------------------------------

enum form {
    EQUALS = 1, // key=X
    JSON = 2,   // "key":"X"
    HEADER = 4, // key: X
};

// How far a value without quotes goes.
enum extent {
    WORD,        // to the next blank
    SCHEME_WORD, // the same, and a first word before it is shown: Basic X
    LINE,        // to the end of the line
};

static const struct secret_key {
    const char *name; // lower case
    bool whole;       // the word must be equal, else only end with it
    unsigned forms;
    enum extent extent;
} keys[] = {
    {"authorization", false, EQUALS | JSON | HEADER, SCHEME_WORD},
    {"cookie", false, EQUALS | JSON | HEADER, LINE},
    {"-key", false, EQUALS | JSON | HEADER, WORD},
    {"_key", false, EQUALS | JSON, WORD},
    {"apikey", false, EQUALS | JSON, WORD},
    {"token", false, EQUALS | JSON, WORD},
    {"secret", false, EQUALS | JSON, WORD},
    {"password", false, EQUALS | JSON, WORD},
    {"passwd", false, EQUALS | JSON, WORD},
    {"passphrase", false, EQUALS | JSON, WORD},
    {"code", true, EQUALS, WORD}, // of a login; "code" in JSON names errors
};

struct secret_range {
    size_t start, end; // nothing when equal
};

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t word_end(struct str text, size_t i)
{
    while (i < text.n && (is_alnum(text.p[i]) || text.p[i] == '_' || text.p[i] == '-')) {
        i++;
    }
    return i;
}

static size_t skip_blanks(struct str text, size_t i)
{
    while (i < text.n && (text.p[i] == ' ' || text.p[i] == '\t')) {
        i++;
    }
    return i;
}

// Length of a quote at `i`: 0 without one, 2 when it is escaped.
static size_t quote_at(struct str text, size_t i)
{
    struct str s = str_from(text, i);
    return str_starts(s, "\\\"") ? 2 : str_starts(s, "\"") || str_starts(s, "'") ? 1 : 0;
}

// The first of `stops` at or after `i`. A backslash takes the byte after it along, except that
// an escaped quote ends a value that itself is not in plain double quotes.
static size_t find_stop(struct str text, size_t i, const char *stops, bool escaped_stops)
{
    for (; i < text.n; i++) {
        if (text.p[i] == '\\') {
            if (escaped_stops && str_starts(str_from(text, i), "\\\"")) {
                return i;
            }
            i++;
        } else if (text.p[i] != '\0' && strchr(stops, text.p[i]) != NULL) {
            return i;
        }
    }
    return text.n;
}

static size_t value_end(struct str text, size_t i, size_t quote, enum extent extent)
{
    if (quote == 0) {
        return find_stop(text, i, extent == LINE ? "\"\r\n" : "\"& \t\r\n\v\f", true);
    }
    bool single = text.p[i - 1] == '\'';
    return find_stop(text, i, single ? "'\"" : "\"", single || quote == 2);
}

static const struct secret_key *find_key(struct str word, enum form form)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        size_t n = strlen(keys[i].name);
        if ((keys[i].forms & form) != 0 && word.n >= n && (!keys[i].whole || word.n == n) &&
            str_caseeqz(str_from(word, word.n - n), keys[i].name)) {
            return &keys[i];
        }
    }
    return NULL;
}

// The value after a key that ends at `i`.
static struct secret_range value_of(struct str text, struct str word, size_t i)
{
    size_t closing = quote_at(text, i);
    size_t sep = skip_blanks(text, i + closing);
    if (sep >= text.n || (text.p[sep] != '=' && text.p[sep] != ':')) {
        return (struct secret_range){0};
    }
    enum form form = text.p[sep] == '=' ? EQUALS : closing != 0 ? JSON : HEADER;
    const struct secret_key *key = find_key(word, form);
    bool tight = form == EQUALS && sep == i; // "token= next=1" has no value, "token = X" has one
    size_t start = tight ? sep + 1 : skip_blanks(text, sep + 1);
    size_t quote = quote_at(text, start);
    if (key == NULL || (form == JSON && quote == 0)) {
        return (struct secret_range){0};
    }
    start += quote;
    if (key->extent == SCHEME_WORD) {
        size_t scheme = word_end(text, start), next = skip_blanks(text, scheme);
        start = scheme > start && next > scheme ? next : start;
    }
    return (struct secret_range){start, value_end(text, start, quote, key->extent)};
}

// What follows "bearer" and a blank.
static struct secret_range bearer_of(struct str text, struct str word, size_t i)
{
    size_t start = skip_blanks(text, i);
    if (start == i || !str_caseeqz(word, "bearer")) {
        return (struct secret_range){0};
    }
    return (struct secret_range){start, value_end(text, start, 0, WORD)};
}

// "sk-..." in the word [i, end), at its start or after `_` or `-`.
static struct secret_range sk_in(struct str text, size_t i, size_t end)
{
    for (size_t at = i; at + strlen("sk-") + SHORTEST_SK <= end; at++) {
        if ((at == i || !is_alnum(text.p[at - 1])) && memcmp(text.p + at, "sk-", 3) == 0) {
            return (struct secret_range){at, end};
        }
    }
    return (struct secret_range){0};
}

static struct secret_range secret_of_word(struct str text, size_t i, size_t end)
{
    struct str word = {text.p + i, end - i};
    struct secret_range r = value_of(text, word, end);
    if (r.end <= r.start) {
        r = bearer_of(text, word, end);
    }
    return r.end > r.start ? r : sk_in(text, i, end);
}

void log__hide_patterns(struct buf *out, struct str text)
{
    size_t shown = 0; // copied up to here
    for (size_t i = 0; i < text.n;) {
        size_t end = word_end(text, i);
        struct secret_range r = end > i ? secret_of_word(text, i, end) : (struct secret_range){0};
        if (r.end > r.start) {
            buf_add(out, text.p + shown, r.start - shown);
            buf_addz(out, hidden);
            shown = i = r.end;
        } else {
            i = MAX(end, i + 1);
        }
    }
    buf_adds(out, str_from(text, shown));
}
