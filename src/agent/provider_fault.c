// What a failure means: try again, let the user act, or make the request shorter.
//
// Status codes alone do not tell: 429 is a rate limit, which passes, or a quota, which does not; 400 is a mistake
// or a full context. So the error itself decides first (its code and type, then known words of its message), and
// the status only when that tells nothing.
//
// Messages come from outside: they are made one line, cut, and cleaned of keys before they are kept.

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>

#include "agent/provider_int.h"
#include "base/log.h"
#include "base/time.h"
#include "base/utf8.h"

enum { SAID_MAX = 320 };

static const struct {
    const char *name;
    bool retry;
} faults[PROVIDER_FAULT__COUNT] = {
#define X(id, name, retry) [PROVIDER_##id] = {name, retry},
    PROVIDER_FAULTS(X)
#undef X
};

struct hint {
    const char *word;
    enum provider_fault fault;
};

// Parts of a code or type.
static const struct hint codes[] = {
    {"context_length_exceeded", PROVIDER_CONTEXT},
    {"request_too_large", PROVIDER_CONTEXT},
    {"insufficient_quota", PROVIDER_QUOTA},
    {"enforced_spend_limit", PROVIDER_QUOTA},
    {"credit_balance", PROVIDER_QUOTA},
    {"billing_", PROVIDER_QUOTA},
    {"usage_limit", PROVIDER_QUOTA},
    {"scenario", PROVIDER_SCENARIO},
    {"rate_limit", PROVIDER_RATE_LIMITED},
    {"overloaded", PROVIDER_OVERLOADED},
    {"server_error", PROVIDER_OVERLOADED},
    {"api_error", PROVIDER_OVERLOADED},
    {"invalid_api_key", PROVIDER_AUTH},
    {"authentication_error", PROVIDER_AUTH},
    {"permission_error", PROVIDER_AUTH},
};

// Parts of a message, where servers give no code. Lower case.
static const struct hint words[] = {
    {"prompt is too long", PROVIDER_CONTEXT},
    {"maximum context length", PROVIDER_CONTEXT},
    {"exceeds the context window", PROVIDER_CONTEXT},
    {"exceed the available context size", PROVIDER_CONTEXT},
    {"exceed context limit", PROVIDER_CONTEXT},
    {"input is too long", PROVIDER_CONTEXT},
    {"credit balance is too low", PROVIDER_QUOTA},
    {"exceeded your current quota", PROVIDER_QUOTA},
};

/// Where `word` is in `s`, in any case; -1: nowhere.
static ptrdiff_t find(struct str s, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.n; i++) {
        if (strncasecmp(s.p + i, word, n) == 0) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

static bool find_hint(const struct hint *hints, size_t n, struct str s, enum provider_fault *out)
{
    for (size_t i = 0; i < n; i++) {
        if (find(s, hints[i].word) >= 0) {
            *out = hints[i].fault;
            return true;
        }
    }
    return false;
}

static enum provider_fault by_status(int status)
{
    switch (status) {
    case 401:
    case 403: return PROVIDER_AUTH;
    case 402: return PROVIDER_QUOTA;
    case 413: return PROVIDER_CONTEXT;
    case 429: return PROVIDER_RATE_LIMITED;
    case 200: // the server failed while it answered
    case 408:
    case 409: return PROVIDER_OVERLOADED;
    default: return status >= 500 ? PROVIDER_OVERLOADED : PROVIDER_REJECTED;
    }
}

static enum provider_fault judge(int status, const struct wire_fault *f)
{
    enum provider_fault fault;
    // a plugin's provider may use our names
    for (fault = 0; fault < PROVIDER_FAULT__COUNT; fault++) {
        if (str_eqz(f->code, faults[fault].name)) {
            return fault;
        }
    }
    bool known = find_hint(codes, ARRAY_LEN(codes), f->code, &fault) ||
                 find_hint(codes, ARRAY_LEN(codes), f->type, &fault) ||
                 find_hint(words, ARRAY_LEN(words), f->message, &fault);
    if (known) {
        return fault;
    }
    if (status == 200 && find(f->type, "invalid_request") >= 0) {
        return PROVIDER_REJECTED;
    }
    if (f->status != 0) {
        return by_status(f->status);
    }
    int64_t code;
    bool is_status = status == 200 && str_to_i64(f->code, &code) && code >= 400 && code < 600;
    return by_status(is_status ? (int)code : status);
}

static void set_message(struct provider_error *out, struct str text)
{
    size_t n = utf8_cut(text.p, text.n, sizeof out->message - 1);
    if (n != 0) {
        memcpy(out->message, text.p, n);
    }
    out->message[n] = '\0';
}

// ---- how long to wait -----------------------------------------------------------------------

// A decimal number, with or without a fraction, at the start of `*s`, which moves past it. False: there is none.
static bool take_number(struct str *s, double *out)
{
    double value = 0, place = 1;
    size_t n = 0;
    bool digits = false, point = false;
    for (; n < s->n && (isdigit((unsigned char)s->p[n]) || (s->p[n] == '.' && !point)); n++) {
        if (s->p[n] == '.') {
            point = true;
            continue;
        }
        digits = true;
        place = point ? place / 10 : place;
        value = point ? value + (s->p[n] - '0') * place : value * 10 + (s->p[n] - '0');
    }
    *s = str_from(*s, n);
    *out = value;
    return digits;
}

static const struct {
    const char *unit;
    double ms;
} units[] = {{"ms", 1}, {"seconds", 1e3}, {"second", 1e3}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}};

static double take_unit(struct str *s)
{
    size_t n = 0;
    while (s->n != 0 && s->p[0] == ' ') {
        *s = str_from(*s, 1);
    }
    while (n < s->n && isalpha((unsigned char)s->p[n])) {
        n++;
    }
    struct str word = {s->p, n};
    *s = str_from(*s, n);
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (str_eqz(word, units[i].unit)) {
            return units[i].ms;
        }
    }
    return 0;
}

static uint64_t whole_ms(double ms)
{
    return ms > 0 ? (uint64_t)(MIN(ms, 1e12) + 0.999) : 0; // rounded up
}

// "6m0s", "1.5s", "20 ms"
static uint64_t parse_span(struct str s)
{
    double number, ms = 0;
    while (take_number(&s, &number)) {
        ms += number * take_unit(&s);
    }
    return whole_ms(ms);
}

static bool take_part(struct str *s, char end, uint64_t max, uint64_t *out)
{
    return str_to_u64(str_cut(s, end), out) && *out <= max;
}

// Sun, 15 Nov 2026 05:01:12 GMT
static uint64_t until_date(struct str s, int64_t wall_ms)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    uint64_t day, year, hour, min, sec;
    str_cut(&s, ' ');
    if (!take_part(&s, ' ', 31, &day)) {
        return 0;
    }
    ptrdiff_t month = str_lookup(str_cut(&s, ' '), months, ARRAY_LEN(months));
    if (month < 0 || !take_part(&s, ' ', 9999, &year) || !take_part(&s, ':', 23, &hour) ||
        !take_part(&s, ':', 59, &min) || !take_part(&s, ' ', 60, &sec) || !str_eqz(s, "GMT")) {
        return 0;
    }
    int64_t at = time_days((int64_t)year, (unsigned)month + 1, (unsigned)day) * 86400 +
                 (int64_t)(hour * 3600 + min * 60 + sec);
    return at * 1000 > wall_ms ? (uint64_t)(at * 1000 - wall_ms) : 0;
}

static const struct {
    const char *remaining, *reset;
} limits[] = {
    {"x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"},
    {"x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
    {"anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"},
    {"anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"},
    {"anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"},
    {"anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"},
};

// ---- judging --------------------------------------------------------------------------------

void provider__judge(struct provider_error *out, const char *who, int status,
                     const struct wire_fault *fault)
{
    struct buf text = {.max = SIZE_MAX};
    static const char asks[] = "try again in "; // "Please try again in 11.054s."
    struct str said = fault->message.n != 0 ? fault->message : fault->code;
    ptrdiff_t at = find(fault->message, asks);
    *out = (struct provider_error){
        .fault = judge(status, fault), .status = status, .retry_after_ms = fault->wait_ms};
    if (at >= 0 && fault->wait_ms == 0) {
        out->retry_after_ms = parse_span(str_from(fault->message, (size_t)at + strlen(asks)));
    }
    buf_addf(&text, "'%s' ", who);
    if (status == 200) {
        buf_addz(&text, "failed while it answered");
    } else {
        buf_addf(&text, "answered with status %d", status);
    }
    if (said.n != 0) {
        buf_addz(&text, ": ");
        // one line, without control characters and keys
        struct buf line = {.max = SIZE_MAX};
        said = str_trim(said);
        buf_add(&line, said.p, utf8_cut(said.p, said.n, SAID_MAX));
        for (size_t i = 0; i < line.n; i++) {
            if ((unsigned char)line.p[i] < ' ') {
                line.p[i] = ' ';
            }
        }
        log_redact(&text, buf_str(&line));
        buf_fini(&line);
    }
    set_message(out, buf_str(&text));
    buf_fini(&text);
}

void provider__judge_body(struct provider_error *out, const char *who, int status, struct str body)
{
    static const struct json_opts opts = {.dup = JSON_DUP_LAST};
    struct wire_fault fault = {0};
    struct json *v = NULL;
    struct arena a = {0};
    body = str_trim(body);
    if (json_parse(&v, &a, body, &opts, NULL) == 0) {
        // {"error": {...}}, {"error": "text"}, {"type": "error", "error": {...}}, {"message": "text"} and
        // {"detail": "text"} are in use.
        const struct json *error = json_get(v, "error");
        const struct json *said = json_get(error, "message");
        const struct json *code = json_ptr(error, "/details/error_code");
        said = said != NULL ? said : json_get(v, "message");
        said = said != NULL ? said : json_get(v, "detail");
        said = error != NULL && error->type == JSON_STR ? error : said;
        fault.message = json_str(said, NULL);
        fault.type = json_get_text(error, "type");
        fault.code = json_str(code != NULL ? code : json_get(error, "code"), NULL);
    } else if (body.n != 0 && body.p[0] != '<') { // HTML of a proxy tells nothing in its first line
        fault.message = body;
    }
    provider__judge(out, who, status, &fault);
    arena_fini(&a);
}

void provider__fault(struct provider_error *out, enum provider_fault fault, const char *who,
                     const char *fmt, ...)
{
    char text[sizeof out->message];
    struct buf clean = {.max = SIZE_MAX};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    *out = (struct provider_error){.fault = fault};
    buf_addf(&clean, "'%s' ", who);
    log_redact(&clean, str_of(text));
    set_message(out, buf_str(&clean));
    buf_fini(&clean);
}

void provider__judge_rc(struct provider_error *out, const char *who, bool had_head,
                        const struct err *e)
{
    if (e->code == ERR_TOO_LARGE) {
        provider__fault(out, PROVIDER_TOO_LARGE, who, "answered too much: %s", e->msg);
    } else if (e->code == ERR_INVALID || e->code == ERR_UNSUPPORTED) {
        provider__fault(out, PROVIDER_REJECTED, who, "cannot be asked: %s", e->msg);
    } else if (had_head) {
        provider__fault(out, PROVIDER_CUT, who, "was cut off while it answered: %s", e->msg);
    } else {
        provider__fault(out, PROVIDER_UNREACHABLE, who, "cannot be reached: %s", e->msg);
    }
}

bool provider__worth_retry(enum provider_fault fault)
{
    return faults[fault].retry;
}

const char *provider_fault_name(enum provider_fault fault)
{
    assert(fault < PROVIDER_FAULT__COUNT);
    return faults[fault].name;
}

uint64_t provider__asked_ms(const struct http_reply *reply, int64_t wall_ms)
{
    struct str ms = str_trim(http_reply_get(reply, "retry-after-ms"));
    struct str after = str_trim(http_reply_get(reply, "retry-after"));
    uint64_t wait = 0;
    double number;
    if (take_number(&ms, &number) && ms.n == 0) {
        return whole_ms(number);
    }
    if (after.n != 0) {
        struct str rest = after;
        double seconds;
        if (take_number(&rest, &seconds) && rest.n == 0) {
            return whole_ms(seconds * 1000);
        }
        return until_date(after, wall_ms);
    }
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        if (str_eqz(http_reply_get(reply, limits[i].remaining), "0")) {
            struct str reset = http_reply_get(reply, limits[i].reset); // "6m0s", or a time
            int64_t at;
            uint64_t until = !time_parse(reset, &at) ? parse_span(reset)
                             : at > wall_ms          ? (uint64_t)(at - wall_ms)
                                                     : 0;
            wait = MAX(wait, until);
        }
    }
    return wait;
}
