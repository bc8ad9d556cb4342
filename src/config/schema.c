// keys.def as data: looking names up, checking values, reading them from text.
//
// A file is walked from the top with a prefix of the pattern in hand:
//
//     [providers.work]      ""  ──"providers"──> "providers."  ──"work"──> "providers.*."
//     kind = "anthropic"                                        ──"kind"──> the row providers.*.kind
//
// so a name is only compared with the known names of its own table, and the nearest known name is
// looked for there. An exact name comes before a `*` row.
//
// Each type has one row in `types`: what it accepts, how it reads from text, how it is called.
//
// Invariant: every row of keys.def with a default has one that its own type accepts (tests/unit).

#include <arpa/inet.h>
#include <assert.h>

#include "base/utf8.h"
#include "config/config.h"
#include "config/schema_int.h"

enum { NAME_LEN = 64, USER_NAME_LEN = 256, BEGINNING_LEN = 3 };

const struct schema__key schema__keys[] = {
#define KEY(pattern, type, fallback, range, project, help)                                         \
    {pattern, SCHEMA_##type, fallback, range, SCHEMA_##project},
#define PRESET(key, value)
#define VARIABLE(name, key, whose)
#include "config/keys.def"
#undef KEY
#undef PRESET
#undef VARIABLE
    {0},
};

const struct schema__array schema__arrays[SCHEMA_ARRAYS] = {
    {"plugins", "plugins[].", SCHEMA_ALWAYS},
    {"permission", "permission[].", SCHEMA_NEVER},
    {"command_hooks", "command_hooks[].", SCHEMA_NEVER},
};

const struct schema__preset schema__presets[] = {
#define KEY(pattern, type, fallback, range, project, help)
#define PRESET(key, value) {key, value},
#define VARIABLE(name, key, whose)
#include "config/keys.def"
#undef KEY
#undef PRESET
#undef VARIABLE
    {0},
};

enum { WHOSE_ANY, WHOSE_CLIENT };

const struct schema__variable schema__variables[] = {
#define KEY(pattern, type, fallback, range, project, help)
#define PRESET(key, value)
#define VARIABLE(name, key, whose) {name, key, WHOSE_##whose == WHOSE_CLIENT},
#include "config/keys.def"
#undef KEY
#undef PRESET
#undef VARIABLE
    {0},
};

// ---- ranges --------------------------------------------------------------------------------

/// Position of `s` in "a|b|c", or -1.
static int choice_index(const char *choices, struct str s)
{
    struct str rest = str_of(choices);
    for (int i = 0; rest.p != NULL; i++) {
        if (str_eq(str_cut(&rest, '|'), s)) {
            return i;
        }
    }
    return -1;
}

static void range_bounds(const struct schema__key *k, int64_t *low, int64_t *high)
{
    struct str rest = str_of(k->range);
    bool ok = str_to_i64(str_cut(&rest, '.'), low) && str_to_i64(str_from(rest, 1), high);
    assert(ok); // written in keys.def
    (void)ok;
}

// ---- one check per type ---------------------------------------------------------------------

static bool is_text(const struct json *v)
{
    return v->type == JSON_STR && memchr(v->s.n != 0 ? v->s.p : "", '\0', v->s.n) == NULL;
}

static bool check_str(const struct schema__key *k, const struct json *v)
{
    (void)k;
    return is_text(v);
}

static bool is_bare(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static bool check_name(const struct schema__key *k, const struct json *v)
{
    (void)k;
    if (!is_text(v) || v->s.n == 0 || v->s.n > NAME_LEN || v->s.p[0] == '.') {
        return false;
    }
    size_t i = 0;
    while (i < v->s.n && (is_bare(v->s.p[i]) || v->s.p[i] == '.')) {
        i++;
    }
    return i == v->s.n;
}

static bool check_listen(const struct schema__key *k, const struct json *v)
{
    (void)k;
    return is_text(v) && config_listen_valid(v->s);
}

/// An address after its "https://": a host, no user name (it would be shown), nothing unprintable.
static bool check_url_rest(struct str rest)
{
    struct str path = rest;
    struct str host = str_cut(&path, '/');
    for (size_t i = 0; i < rest.n; i++) {
        if ((unsigned char)rest.p[i] <= ' ' || rest.p[i] == 0x7F) {
            return false;
        }
    }
    return host.n != 0 && str_index(host, '@') < 0;
}

static bool check_https(const struct schema__key *k, const struct json *v)
{
    (void)k;
    return is_text(v) &&
           (v->s.n == 0 || (str_starts(v->s, "https://") && check_url_rest(str_from(v->s, 8))));
}

static bool check_url(const struct schema__key *k, const struct json *v)
{
    if (is_text(v) && str_starts(v->s, "http://")) {
        return check_url_rest(str_from(v->s, 7));
    }
    return check_https(k, v) && v->s.n != 0;
}

static bool check_enum(const struct schema__key *k, const struct json *v)
{
    return is_text(v) && choice_index(k->range, v->s) >= 0;
}

static bool check_bool(const struct schema__key *k, const struct json *v)
{
    (void)k;
    return v->type == JSON_BOOL;
}

static bool check_int(const struct schema__key *k, const struct json *v)
{
    int64_t low, high;
    range_bounds(k, &low, &high);
    return v->type == JSON_INT && v->i >= low && v->i <= high;
}

static bool check_number(const struct schema__key *k, const struct json *v)
{
    int64_t low, high;
    if (v->type == JSON_INT) {
        return check_int(k, v);
    }
    range_bounds(k, &low, &high);
    return v->type == JSON_DOUBLE && v->d >= (double)low && v->d <= (double)high;
}

static bool check_strings(const struct schema__key *k, const struct json *v)
{
    (void)k;
    if (v->type != JSON_ARR) {
        return false;
    }
    json_foreach_item (it, v) {
        if (!is_text(it)) {
            return false;
        }
    }
    return true;
}

static bool check_choice(const struct schema__key *k, const struct json *v)
{
    return check_strings(k, v) || (v->type == JSON_STR && str_eqz(v->s, "*"));
}

static bool check_hot(const struct schema__key *k, const struct json *v)
{
    return check_bool(k, v) || (v->type == JSON_STR && str_eqz(v->s, "manual"));
}

static bool check_table(const struct schema__key *k, const struct json *v)
{
    (void)k;
    return v->type == JSON_OBJ;
}

// ---- from text ------------------------------------------------------------------------------

static void parse_str(struct str text, struct arena *a, struct json *out)
{
    *out = (struct json){.type = JSON_STR, .s = arena_str(a, text)};
}

/// A value that is no boolean or number stays a string, which the check then refuses.
static void parse_bool(struct str text, struct arena *a, struct json *out)
{
    parse_str(text, a, out);
    if (str_eqz(text, "true") || str_eqz(text, "false")) {
        *out = (struct json){.type = JSON_BOOL, .b = str_eqz(text, "true")};
    }
}

static void parse_int(struct str text, struct arena *a, struct json *out)
{
    int64_t i;
    parse_str(text, a, out);
    if (str_to_i64(text, &i)) {
        *out = (struct json){.type = JSON_INT, .i = i};
    }
}

static void parse_strings(struct str text, struct arena *a, struct json *out)
{
    size_t n = 1;
    for (size_t i = 0; i < text.n; i++) {
        n += text.p[i] == ',';
    }
    *out = (struct json){.type = JSON_ARR, .items = arena_calloc(a, n, sizeof *out->items)};
    while (text.n != 0) {
        parse_str(str_trim(str_cut(&text, ',')), a, &out->items[out->n++]);
    }
}

static void parse_choice(struct str text, struct arena *a, struct json *out)
{
    (str_eqz(text, "*") ? parse_str : parse_strings)(text, a, out);
}

// ---- expected values, for messages -----------------------------------------------------------

static void expect_range(const struct schema__key *k, struct buf *out)
{
    int64_t low, high;
    range_bounds(k, &low, &high);
    buf_addf(out, "%s from %lld to %lld", k->type == SCHEMA_INT ? "an integer" : "a number",
             (long long)low, (long long)high);
}

static void expect_choices(const struct schema__key *k, struct buf *out)
{
    struct str rest = str_of(k->range);
    while (rest.p != NULL) {
        struct str choice = str_cut(&rest, '|');
        buf_addf(out, "\"" STR_FMT "\"%s", STR_ARG(choice), rest.p == NULL ? "" : " or ");
    }
}

struct type {
    bool (*check)(const struct schema__key *k, const struct json *v);
    void (*parse)(struct str text, struct arena *a, struct json *out); // NULL: never from text
    const char *expected;                                              // NULL: ask `expect`
    void (*expect)(const struct schema__key *k, struct buf *out);
};

static const struct type types[] = {
    [SCHEMA_STR] = {check_str, parse_str, "a string", NULL},
    [SCHEMA_NAME] = {check_name, parse_str, "a name of letters, digits, '_', '-' and '.'", NULL},
    [SCHEMA_LISTEN] = {check_listen, parse_str, "\"\", \"auto\" or ADDR:PORT", NULL},
    [SCHEMA_URL] = {check_url, parse_str, "an http:// or https:// address without a user name",
                    NULL},
    [SCHEMA_HTTPS] = {check_https, parse_str, "\"\" or an https:// address without a user name",
                      NULL},
    [SCHEMA_ENUM] = {check_enum, parse_str, NULL, expect_choices},
    [SCHEMA_BOOL] = {check_bool, parse_bool, "true or false", NULL},
    [SCHEMA_INT] = {check_int, parse_int, NULL, expect_range},
    [SCHEMA_NUMBER] = {check_number, NULL, NULL, expect_range},
    [SCHEMA_STRINGS] = {check_strings, parse_strings, "a list of strings", NULL},
    [SCHEMA_CHOICE] = {check_choice, parse_choice, "\"*\" or a list of strings", NULL},
    [SCHEMA_HOT] = {check_hot, parse_bool, "true, false or \"manual\"", NULL},
    [SCHEMA_TABLE] = {check_table, NULL, "a table", NULL},
};

// ---- public ---------------------------------------------------------------------------------

/// The part of `k` right after `prefix`, as in "kind" or "work" of "work.kind"; `*last` tells
/// whether the pattern ends there. STR_NULL when `k` does not begin with `prefix`.
static struct str part_after(const struct schema__key *k, struct str prefix, bool *last)
{
    struct str pattern = str_of(k->pattern);
    if (pattern.n <= prefix.n || memcmp(pattern.p, prefix.n != 0 ? prefix.p : "", prefix.n) != 0) {
        return STR_NULL;
    }
    struct str rest = str_from(pattern, prefix.n);
    struct str part = str_cut(&rest, '.');
    *last = rest.p == NULL;
    return part;
}

struct schema__step schema__step(struct str prefix, struct str name)
{
    bool last = false;
    for (int any = 0; any <= 1; any++) {
        for (const struct schema__key *k = schema__keys; k->pattern != NULL; k++) {
            struct str part = part_after(k, prefix, &last);
            if (part.p == NULL || str_ends(part, "[]") ||
                !(any ? str_eqz(part, "*") : !str_eqz(part, "*") && str_eq(part, name))) {
                continue;
            }
            struct str below = {k->pattern, prefix.n + part.n + 1};
            return (struct schema__step){last ? k : NULL, last ? STR_NULL : below, any != 0};
        }
    }
    return (struct schema__step){0};
}

/// The first that begins with `name`: "debounce" is far from "debounce_ms", yet it is meant.
static const char *find_beginning(struct str name, const char *const *known, size_t n)
{
    for (size_t i = 0; name.n >= BEGINNING_LEN && i < n; i++) {
        if (strncmp(known[i], name.p, name.n) == 0) {
            return known[i];
        }
    }
    return NULL;
}

const char *schema__nearest(struct arena *a, struct str prefix, struct str name)
{
    const char *known[ARRAY_LEN(schema__keys)];
    size_t n = 0;
    bool last;

    for (const struct schema__key *k = schema__keys; k->pattern != NULL; k++) {
        struct str part = part_after(k, prefix, &last);
        if (part.p != NULL && !str_eqz(part, "*")) {
            part.n -= str_ends(part, "[]") ? 2 : 0;
            known[n++] = arena_strdup(a, part);
        }
    }
    const char *nearest = str_nearest(name, known, n);
    return nearest != NULL ? nearest : find_beginning(name, known, n);
}

const struct schema__key *schema__find(struct str key)
{
    for (const struct schema__key *k = schema__keys; k->pattern != NULL; k++) {
        if (str_eqz(key, k->pattern) && strpbrk(k->pattern, "*[") == NULL) {
            return k;
        }
    }
    return NULL;
}

bool schema__name_ok(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        if ((unsigned char)name.p[i] < ' ' || name.p[i] == 0x7F) {
            return false;
        }
    }
    return name.n != 0 && name.n <= USER_NAME_LEN;
}

void schema__add_name(struct buf *key, struct str name)
{
    size_t bare = 0;
    while (bare < name.n && is_bare(name.p[bare])) {
        bare++;
    }
    if (bare == name.n && bare != 0) {
        buf_adds(key, name);
        return;
    }
    buf_addc(key, '"');
    for (size_t i = 0; i < name.n; i++) {
        buf_addz(key, name.p[i] == '"' || name.p[i] == '\\' ? "\\" : "");
        buf_addc(key, name.p[i]);
    }
    buf_addc(key, '"');
}

bool schema__check(const struct schema__key *k, const struct json *v)
{
    return types[k->type].check(k, v);
}

void schema__expected(const struct schema__key *k, struct buf *out)
{
    if (types[k->type].expected != NULL) {
        buf_addz(out, types[k->type].expected);
    } else {
        types[k->type].expect(k, out);
    }
}

bool schema__may_show(const struct schema__key *k)
{
    return k->type != SCHEMA_URL && k->type != SCHEMA_HTTPS;
}

bool schema__parse(const struct schema__key *k, struct str text, struct arena *a, struct json *out)
{
    assert(types[k->type].parse != NULL);
    types[k->type].parse(text, a, out);
    return utf8_valid(text) && schema__check(k, out);
}

bool schema__not_wider(const struct schema__key *k, const struct json *v, const struct json *than)
{
    if (k->type == SCHEMA_BOOL) {
        return !v->b || (than != NULL && than->b);
    }
    assert(k->type == SCHEMA_ENUM);
    int bound = than != NULL ? choice_index(k->range, than->s) : 0;
    return choice_index(k->range, v->s) <= bound;
}

/// Whether `addr` is an address of `family`, spelled as inet_pton() takes it.
static bool is_address(int family, struct str addr)
{
    char z[INET6_ADDRSTRLEN], bin[sizeof(struct in6_addr)];
    if (addr.n >= sizeof z || addr.n == 0 || memchr(addr.p, '\0', addr.n) != NULL) {
        return false;
    }
    memcpy(z, addr.p, addr.n);
    z[addr.n] = '\0';
    return inet_pton(family, z, bin) == 1;
}

bool config_listen_valid(struct str s)
{
    if (s.n == 0 || str_eqz(s, "auto")) {
        return true;
    }
    size_t colon = s.n;
    while (colon > 0 && s.p[colon - 1] != ':') {
        colon--;
    }
    struct str port = str_from(s, colon);
    uint64_t number;
    if (colon == 0 || port.n > 5 || !str_to_u64(port, &number) || number > 65535) {
        return false;
    }
    struct str addr = {s.p, colon - 1};
    if (addr.n > 2 && addr.p[0] == '[' && addr.p[addr.n - 1] == ']') {
        return is_address(AF_INET6, (struct str){addr.p + 1, addr.n - 2});
    }
    return str_eqz(addr, "localhost") || is_address(AF_INET, addr);
}
