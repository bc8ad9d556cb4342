// TOML's values of one word: booleans, numbers, dates and times.
//
// Pure functions from a token to a value. Each either reads all of the token or says what is wrong
// with it in words that go after the quoted token: "'01' has a leading zero".
//
// Integers are 64 bit; more is refused, not rounded. So is a float beyond the range of a double (one
// nearer to zero than any double becomes zero). A second may be 60, as RFC 3339 has it for leap
// seconds. Fractions of a second are cut, not rounded, to nine digits.

#include <ctype.h>
#include <locale.h>
#include <math.h>

#include "base/time.h"
#include "base/toml_int.h"

static const char not_a_value[] = "is not a value (strings need quotes)";
static const char not_a_number[] = "is not a number";
static const char not_a_time[] = "is not a date or time, as in 1979-05-27T07:32:00Z";

// ---- numbers ------------------------------------------------------------------------------

/// The value of the digit, or 99 if `c` is not a digit.
static unsigned digit_of(char c)
{
    if (isdigit((unsigned char)c)) {
        return (unsigned)(c - '0');
    }
    return isxdigit((unsigned char)c) ? (unsigned)((c | 0x20) - 'a' + 10) : 99;
}

/// Skip digits with single underscores between them. False when there is no digit or an underscore
/// is not between two.
static bool skip_digits(struct str *t, unsigned base)
{
    bool digit = false;
    size_t i = 0;
    for (; i < t->n && (t->p[i] == '_' || digit_of(t->p[i]) < base); i++) {
        if (t->p[i] == '_' && !digit) {
            return false;
        }
        digit = t->p[i] != '_';
    }
    *t = str_from(*t, i);
    return digit;
}

static bool skip_char(struct str *t, const char *any)
{
    bool here = t->n != 0 && strchr(any, t->p[0]) != NULL;
    *t = here ? str_from(*t, 1) : *t;
    return here;
}

static const char *set_int(struct toml *v, struct str digits, unsigned base, bool negative)
{
    uint64_t n = 0, most = (uint64_t)INT64_MAX + negative;
    for (size_t i = 0; i < digits.n; i++) {
        if (digits.p[i] == '_') {
            continue;
        }
        unsigned d = digit_of(digits.p[i]);
        if (n > (most - d) / base) {
            return "does not fit 64 bits";
        }
        n = n * base + d;
    }
    v->type = TOML_INT;
    v->i = negative ? (int64_t)(0 - n) : (int64_t)n;
    return NULL;
}

/// `token` is a float by its form: without underscores it is one for strtod as well. The user's
/// locale has no say in what a decimal point is.
static const char *set_double(struct toml *v, struct str token)
{
    char *z = xmalloc(token.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < token.n; i++) {
        z[n] = token.p[i];
        n += z[n] != '_';
    }
    z[n] = '\0';
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    v->type = TOML_DOUBLE;
    v->d = strtod_l(z, NULL, c);
    freelocale(c);
    free(z);
    return isinf(v->d) ? "is beyond the range of a float" : NULL;
}

static const char *read_number(struct toml *v, struct str token)
{
    static const struct {
        const char *prefix;
        unsigned base;
    } radix[] = {{"0x", 16}, {"0o", 8}, {"0b", 2}};

    for (size_t i = 0; i < ARRAY_LEN(radix); i++) {
        if (str_starts(token, radix[i].prefix)) {
            struct str digits = str_from(token, 2), left = digits;
            bool good = skip_digits(&left, radix[i].base) && left.n == 0;
            return good ? set_int(v, digits, radix[i].base, false) : not_a_number;
        }
    }
    struct str rest = token;
    bool negative = skip_char(&rest, "-");
    if (!negative) {
        skip_char(&rest, "+");
    }
    struct str whole = rest;
    if (!skip_digits(&rest, 10)) {
        return not_a_number;
    }
    whole.n -= rest.n;
    if (whole.n > 1 && whole.p[0] == '0') {
        return "has a leading zero";
    }
    if (rest.n == 0) {
        return set_int(v, whole, 10, negative);
    }
    if (skip_char(&rest, ".") && !skip_digits(&rest, 10)) {
        return not_a_number;
    }
    if (skip_char(&rest, "eE")) {
        skip_char(&rest, "+-");
        if (!skip_digits(&rest, 10)) {
            return not_a_number;
        }
    }
    return rest.n == 0 ? set_double(v, token) : not_a_number;
}

// ---- dates and times ----------------------------------------------------------------------

static bool skip_number(struct str *t, size_t digits, unsigned *out)
{
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        if (i >= t->n || !isdigit((unsigned char)t->p[i])) {
            return false;
        }
        *out = *out * 10 + digit_of(t->p[i]);
    }
    *t = str_from(*t, digits);
    return true;
}

static const char *read_date(struct str *t, char out[16])
{
    unsigned year, month, day;
    if (!skip_number(t, 4, &year) || !skip_char(t, "-") || !skip_number(t, 2, &month) ||
        !skip_char(t, "-") || !skip_number(t, 2, &day)) {
        return not_a_time;
    }
    if (month < 1 || month > 12 || day < 1 || day > time_month_days(year, month)) {
        return "is not a valid date";
    }
    snprintf(out, 16, "%04u-%02u-%02u", year % 10000, month % 100, day % 100);
    return NULL;
}

/// The digits after the point, padded to 3, 6 or 9. False when there are none.
static bool read_fraction(struct str *t, char out[16])
{
    size_t n = 0;
    out[n++] = '.';
    for (; t->n != 0 && isdigit((unsigned char)t->p[0]); *t = str_from(*t, 1)) {
        if (n <= 9) {
            out[n++] = t->p[0];
        }
    }
    bool any = n > 1;
    while (n % 3 != 1) {
        out[n++] = '0';
    }
    out[n] = '\0';
    return any;
}

static const char *read_time(struct str *t, char out[32])
{
    unsigned hour, minute, second;
    char fraction[16] = "";
    if (!skip_number(t, 2, &hour) || !skip_char(t, ":") || !skip_number(t, 2, &minute) ||
        !skip_char(t, ":") || !skip_number(t, 2, &second)) {
        return not_a_time;
    }
    if (skip_char(t, ".") && !read_fraction(t, fraction)) {
        return not_a_time;
    }
    if (hour > 23 || minute > 59 || second > 60) {
        return "is not a valid time of day";
    }
    snprintf(out, 32, "%02u:%02u:%02u%s", hour, minute, second, fraction);
    return NULL;
}

static const char *read_offset(struct str *t, char out[16])
{
    unsigned hour, minute;
    char sign = t->p[0];
    if (skip_char(t, "Zz")) {
        snprintf(out, 16, "Z");
        return NULL;
    }
    if (!skip_char(t, "+-") || !skip_number(t, 2, &hour) || !skip_char(t, ":") ||
        !skip_number(t, 2, &minute)) {
        return not_a_time;
    }
    if (hour > 23 || minute > 59) {
        return "has an offset of a day or more";
    }
    snprintf(out, 16, "%c%02u:%02u", sign, hour, minute);
    return NULL;
}

static const char *read_datetime(struct toml *v, struct arena *a, struct str token)
{
    char date[16] = "", time[32] = "", offset[16] = "";
    bool dated = token.p[2] != ':';
    const char *bad = dated ? read_date(&token, date) : NULL;

    v->type = dated ? TOML_DATE_LOCAL : TOML_TIME_LOCAL;
    if (bad == NULL && dated && skip_char(&token, "Tt ")) {
        v->type = TOML_DATETIME_LOCAL;
    }
    if (bad == NULL && v->type != TOML_DATE_LOCAL) {
        bad = read_time(&token, time);
    }
    if (bad == NULL && v->type == TOML_DATETIME_LOCAL && token.n != 0) {
        v->type = TOML_DATETIME;
        bad = read_offset(&token, offset);
    }
    if (bad != NULL || token.n != 0) {
        return bad != NULL ? bad : not_a_time;
    }
    const char *z = arena_printf(a, "%s%s%s%s", date, *date && *time ? "T" : "", time, offset);
    v->s = str_of(z);
    return NULL;
}

// ---- words --------------------------------------------------------------------------------

static bool read_word(struct toml *v, struct str token)
{
    struct str word = token;
    bool negative = skip_char(&word, "+-") && token.p[0] == '-';
    if (str_eqz(token, "true") || str_eqz(token, "false")) {
        v->type = TOML_BOOL;
        v->b = token.p[0] == 't';
        return true;
    }
    if (!str_eqz(word, "inf") && !str_eqz(word, "nan")) {
        return false;
    }
    v->type = TOML_DOUBLE;
    v->d = word.p[0] == 'n' ? (double)NAN : (double)(negative ? -INFINITY : INFINITY);
    return true;
}

/// No number has a colon third, or a dash after four digits.
static bool is_datetime(struct str t)
{
    unsigned year;
    struct str rest = t;
    return t.n > 4 && (t.p[2] == ':' || (skip_number(&rest, 4, &year) && rest.p[0] == '-'));
}

const char *toml__scalar(struct toml *v, struct arena *a, struct str token)
{
    struct toml read = {0};
    const char *bad = NULL;
    if (is_datetime(token)) {
        bad = read_datetime(&read, a, token);
    } else if (!read_word(&read, token)) {
        bool number = isdigit((unsigned char)token.p[0]) || strchr("+-.", token.p[0]) != NULL;
        bad = number ? read_number(&read, token) : not_a_value;
    }
    read.line = v->line;
    read.col = v->col;
    *v = read;
    return bad;
}
