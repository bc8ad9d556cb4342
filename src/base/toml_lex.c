// The lower half of the TOML parser: characters, places, keys and strings.
//
// Characters that no document may contain (bad UTF-8, control characters, a carriage return without
// its line feed) are refused for the whole text before the first key is read. So the rest of the
// parser need not check for them: every character in a string or comment is allowed, and a line end
// is "\n" or "\r\n".
//
// Places: lines are counted as line ends are passed. Columns count characters, which cannot be had
// by subtraction; `mark` remembers the last place that was asked for on this line, so that each
// byte is counted once, also when a million values are on one line.
//
// Line ends inside multi-line strings become "\n" whatever the file has.

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>

#include "base/toml_int.h"
#include "base/utf8.h"

static const struct {
    char c, means;
} escapes[] = {
    {'b', '\b'}, {'t', '\t'}, {'n', '\n'}, {'f', '\f'}, {'r', '\r'}, {'"', '"'}, {'\\', '\\'},
};

// ---- the text as a whole ------------------------------------------------------------------

static void next_line(struct toml__src *s, const char *start)
{
    s->at = s->mark = start;
    s->mark_col = 1;
    s->line++;
}

static void seek(struct toml__src *s, const char *to)
{
    for (const char *p = s->at; p < to; p++) {
        if (*p == '\n') {
            next_line(s, p + 1);
        }
    }
    s->at = to;
}

int toml__open(struct toml__src *s, struct str text)
{
    const char *start = text.n != 0 ? text.p : "";
    *s = (struct toml__src){.end = start + text.n, .line = 1, .mark_col = 1};
    s->at = s->mark = start + (str_starts(text, "\xEF\xBB\xBF") ? 3 : 0);
    s->tmp.max = text.n; // no escape is shorter than what it stands for
    const char *valid = s->at + utf8_valid_prefix((struct str){s->at, (size_t)(s->end - s->at)});
    for (const char *p = s->at; p < valid; p++) {
        unsigned char c = (unsigned char)*p;
        const char *fault = NULL;
        if (c == '\r' && (p + 1 == s->end || p[1] != '\n')) {
            fault = "a carriage return without its line feed";
        } else if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
            fault = "a control character";
        }
        if (fault != NULL) {
            seek(s, p);
            return toml__fail(s, toml__here(s), "%s (U+%04X) is not allowed", fault, (unsigned)*p);
        }
    }
    if (valid == s->end) {
        return 0;
    }
    seek(s, valid);
    return toml__fail(s, toml__here(s), "the text is not UTF-8");
}

void toml__close(struct toml__src *s)
{
    buf_fini(&s->tmp);
}

// ---- failing ------------------------------------------------------------------------------

int toml__fail(struct toml__src *s, struct toml__place at, const char *fmt, ...)
{
    va_list ap;
    s->bad = at;
    va_start(ap, fmt);
    vsnprintf(s->why, sizeof s->why, fmt, ap);
    va_end(ap);
    return ERR_PARSE;
}

int toml__unexpected(struct toml__src *s, const char *what)
{
    uint32_t c = 0;
    struct toml__place here = toml__here(s);
    utf8_decode((struct str){s->at, (size_t)(s->end - s->at)}, &c);
    if (s->at == s->end) {
        return toml__fail(s, here, "expected %s, found the end of the file", what);
    }
    if (c == '\n' || c == '\r') {
        return toml__fail(s, here, "expected %s, found the end of the line", what);
    }
    if (c <= ' ' || c > '~') {
        return toml__fail(s, here, "expected %s, found U+%04X", what, (unsigned)c);
    }
    return toml__fail(s, here, "expected %s, found '%c'", what, (char)c);
}

struct toml__place toml__here(struct toml__src *s)
{
    assert(s->mark <= s->at);
    for (; s->mark < s->at; s->mark++) {
        s->mark_col += ((unsigned char)*s->mark & 0xC0) != 0x80;
    }
    return (struct toml__place){s->line, s->mark_col};
}

// ---- white space --------------------------------------------------------------------------

static bool eat_newline(struct toml__src *s)
{
    char c = toml__peek(s);
    if (c != '\n' && c != '\r') {
        return false;
    }
    next_line(s, s->at + (c == '\r' ? 2 : 1));
    return true;
}

static void skip_comment(struct toml__src *s)
{
    if (toml__peek(s) == '#') {
        const char *stop = memchr(s->at, '\n', (size_t)(s->end - s->at));
        s->at = stop == NULL ? s->end : stop - (stop[-1] == '\r');
    }
}

char toml__peek(const struct toml__src *s)
{
    return (char)(s->at < s->end ? *s->at : '\0');
}

bool toml__eat(struct toml__src *s, char c)
{
    bool here = toml__peek(s) == c;
    s->at += here;
    return here;
}

void toml__skip_blank(struct toml__src *s)
{
    while (toml__peek(s) == ' ' || toml__peek(s) == '\t') {
        s->at++;
    }
}

void toml__skip_lines(struct toml__src *s)
{
    do {
        toml__skip_blank(s);
        skip_comment(s);
    } while (eat_newline(s));
}

int toml__end_line(struct toml__src *s)
{
    toml__skip_blank(s);
    skip_comment(s);
    if (s->at < s->end && !eat_newline(s)) {
        return toml__unexpected(s, "the end of the line");
    }
    return 0;
}

// ---- strings ------------------------------------------------------------------------------

struct quote {
    char c;
    bool multi;
    struct toml__place from;
};

/// At a quote: true when the string ends here. Up to two quotes may come before the three that end it.
static bool close_quote(struct toml__src *s, const struct quote *q)
{
    size_t n = 0, most = q->multi ? 5 : 1, need = q->multi ? 3 : 1;
    while (n < most && toml__eat(s, q->c)) {
        n++;
    }
    for (size_t own = n >= need ? n - need : n; own > 0; own--) {
        buf_addc(&s->tmp, q->c);
    }
    return n >= need;
}

static int read_code_point(struct toml__src *s, int digits, struct toml__place from)
{
    uint32_t cp = 0;
    for (int i = 0; i < digits; i++, s->at++) {
        int c = (unsigned char)toml__peek(s);
        if (!isxdigit(c)) {
            return toml__fail(s, from, "an escape \\%c takes %d hexadecimal digits",
                              digits == 4 ? 'u' : 'U', digits);
        }
        cp = cp << 4 | (uint32_t)(isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) {
        return toml__fail(s, from, "an escape names U+%04X, which is no character", (unsigned)cp);
    }
    char utf8[4];
    buf_add(&s->tmp, utf8, utf8_encode(cp, utf8));
    return 0;
}

static int read_escape(struct toml__src *s, struct toml__place from)
{
    char c = toml__peek(s);
    if (c == 'u' || c == 'U') {
        s->at++;
        return read_code_point(s, c == 'u' ? 4 : 8, from);
    }
    for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
        if (escapes[i].c == c) {
            s->at++;
            buf_addc(&s->tmp, escapes[i].means);
            return 0;
        }
    }
    return toml__unexpected(s, "one of b t n f r \" \\ u U after a backslash");
}

/// A backslash at the end of a line takes away all white space up to the next text. False, with
/// nothing skipped, when the line does not end here.
static bool fold_lines(struct toml__src *s)
{
    const char *start = s->at;
    toml__skip_blank(s);
    if (!eat_newline(s)) {
        s->at = start;
        return false;
    }
    do {
        toml__skip_blank(s);
    } while (eat_newline(s));
    return true;
}

static int read_rest(struct toml__src *s, const struct quote *q)
{
    for (;;) {
        char c = toml__peek(s);
        if (c == q->c) {
            if (close_quote(s, q)) {
                return 0;
            }
        } else if (c == '\0' || (!q->multi && (c == '\n' || c == '\r'))) {
            char quotes[4] = {q->c, q->c, q->c};
            return toml__fail(s, q->from, "a string begins here and is not closed with %.*s%s",
                              q->multi ? 3 : 1, quotes, q->multi ? "" : " on its line");
        } else if (eat_newline(s)) {
            buf_addc(&s->tmp, '\n');
        } else if (c == '\\' && q->c == '"') {
            struct toml__place from = toml__here(s);
            s->at++;
            int rc = q->multi && fold_lines(s) ? 0 : read_escape(s, from);
            if (rc < 0) {
                return rc;
            }
        } else {
            const char *start = s->at;
            while (s->at < s->end && *s->at != q->c && *s->at != '\\' && *s->at != '\n' &&
                   *s->at != '\r') {
                s->at++;
            }
            s->at += s->at == start; // a backslash of a literal string
            buf_add(&s->tmp, start, (size_t)(s->at - start));
        }
        assert(s->at <= s->end);
    }
}

// ---- keys, strings, tokens ----------------------------------------------------------------

bool toml__is_bare(char c)
{
    char lower = (char)(c | 0x20); // not isalnum(): a locale must not add letters
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int toml__key(struct toml__src *s, struct str *out)
{
    char c = toml__peek(s);
    if (c == '"' || c == '\'') {
        if (s->end - s->at >= 3 && s->at[1] == c && s->at[2] == c) {
            return toml__fail(s, toml__here(s), "a key cannot be a multi-line string");
        }
        return toml__string(s, out);
    }
    const char *start = s->at;
    while (toml__is_bare(toml__peek(s))) {
        s->at++;
    }
    *out = (struct str){start, (size_t)(s->at - start)};
    return out->n != 0 ? 0 : toml__unexpected(s, "a key");
}

int toml__string(struct toml__src *s, struct str *out)
{
    struct quote q = {.c = *s->at, .from = toml__here(s)};
    buf_clear(&s->tmp);
    q.multi = s->end - s->at >= 3 && s->at[1] == q.c && s->at[2] == q.c;
    s->at += q.multi ? 3 : 1;
    if (q.multi) {
        eat_newline(s); // directly after the opening quotes: not part of the string
    }
    int rc = read_rest(s, &q);
    *out = buf_str(&s->tmp);
    return rc;
}

static void skip_token(struct toml__src *s)
{
    while (toml__is_bare(toml__peek(s)) || (toml__peek(s) != '\0' && strchr("+.:", *s->at))) {
        s->at++;
    }
}

struct str toml__token(struct toml__src *s)
{
    const char *start = s->at;
    skip_token(s);
    // between a date and its time there may be a space in place of the T
    bool date = s->at - start == 10 && start[4] == '-' && start[7] == '-';
    if (date && s->end - s->at > 1 && s->at[0] == ' ' && isdigit((unsigned char)s->at[1])) {
        s->at++;
        skip_token(s);
    }
    return (struct str){start, (size_t)(s->at - start)};
}
