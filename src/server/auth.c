// Authentication over TCP: the token, the browser's cookie, and one-time codes that are exchanged for a cookie.
//
//     token file ──> Authorization: Bearer TOKEN
//     afloat open ─> code (60 s, once) ─> GET /?code= ─> cookie (until the token is replaced)
//
// Secrets have at least 210 bits and are compared in constant time, codes against every candidate, so
// that the time taken shows neither where a match is nor how long its prefix is. Codes are kept in memory: a new one replaces
// the one that expires first, and a restart ends them all.
//
// A cookie is a serial number (8 digits, from the clock, rising) and its HMAC under the token: an open
// page still works after a restart of the hub, and nothing needs to be stored. A new token ends all cookies.
// Only the newest COOKIES cookies count: once so many were made, older serials are refused.
//
// Failures are limited by a bucket per address: BURST at once, then one a second. The right secret
// always works, so a stranger's guesses cannot lock the owner out. The table has a fixed size; an
// address that falls out of it starts with an empty bucket.

#include <assert.h>

#include "base/random.h"
#include "base/sha256.h"
#include "base/time.h"
#include "server/server_int.h"

enum {
    CODES = 8,
    COOKIES = 32,
    SERIAL_DIGITS = 8,
    BUCKETS = 256,
    WAYS = 4,
    BURST = 10,
    REFILL_MS = 1000
};

struct code {
    char text[SECRET_TEXT]; // "" when the place is free
    uint64_t expires;       // the first to expire gives way
};

struct bucket {
    uint64_t peer;  // hash of the address, odd; 0 when the place is free
    uint64_t empty; // monotonic time at which all failures are forgiven
};

struct auth {
    struct loop *loop;
    char *token;
    struct code codes[CODES];
    uint64_t serials[COOKIES]; // of the newest cookies, a ring
    size_t made;               // cookies so far
    struct bucket buckets[BUCKETS];
};

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Write the first `n` base64url digits of 32 bytes; the 43rd is of 4 bits. No NUL.
static void encode(const uint8_t bytes[SHA256_SIZE], char *out, size_t n)
{
    assert(n < SECRET_TEXT);
    for (size_t i = 0; i < n; i++) {
        size_t bit = i * 6;
        unsigned next = bit / 8 + 1 < SHA256_SIZE ? bytes[bit / 8 + 1] : 0;
        out[i] = digits[((unsigned)bytes[bit / 8] << 8 | next) >> (10 - bit % 8) & 63];
    }
}

void auth__random(char out[SECRET_TEXT])
{
    uint8_t raw[SHA256_SIZE];
    random_bytes(raw, sizeof raw);
    encode(raw, out, SECRET_TEXT - 1);
    out[SECRET_TEXT - 1] = '\0';
    explicit_bzero(raw, sizeof raw);
}

/// The cookie with this serial.
static void make_cookie(const struct auth *a, uint64_t serial, char out[SECRET_TEXT])
{
    uint8_t mac[SHA256_SIZE];
    char text[7 + SERIAL_DIGITS] = "cookie:";
    for (size_t i = 0; i < SERIAL_DIGITS; i++) {
        out[i] = digits[serial >> (6 * (SERIAL_DIGITS - 1 - i)) & 63];
    }
    memcpy(text + 7, out, SERIAL_DIGITS);
    sha256_hmac(str_of(a->token), (struct str){text, sizeof text}, mac);
    encode(mac, out + SERIAL_DIGITS, SECRET_TEXT - 1 - SERIAL_DIGITS);
    out[SECRET_TEXT - 1] = '\0';
}

/// Is `given` a cookie that we made, and not too many ago?
static bool is_cookie(const struct auth *a, struct str given)
{
    char real[SECRET_TEXT];
    uint64_t serial = 0;
    if (a->token == NULL || a->token[0] == '\0' || given.n != SECRET_TEXT - 1) {
        return false;
    }
    for (size_t i = 0; i < SERIAL_DIGITS; i++) {
        const char *digit = memchr(digits, given.p[i], sizeof digits - 1);
        if (digit == NULL) {
            return false;
        }
        serial = serial << 6 | (uint64_t)(digit - digits);
    }
    make_cookie(a, serial, real);
    bool same = str_eq_secret(given, (struct str){real, SECRET_TEXT - 1});
    explicit_bzero(real, sizeof real);
    return same && (a->made < COOKIES || serial >= a->serials[a->made % COOKIES]);
}

/// The code that `given` is, or NULL. All are compared.
static struct code *find_code(struct auth *a, struct str given)
{
    struct code *found = NULL;
    for (struct code *c = a->codes; c < a->codes + CODES; c++) {
        bool same = str_eq_secret(given, (struct str){c->text, SECRET_TEXT - 1});
        found = same && c->text[0] != '\0' ? c : found;
    }
    return found;
}

static struct bucket *bucket_of(struct auth *a, uint64_t peer)
{
    struct bucket *set = &a->buckets[peer / 2 % (BUCKETS / WAYS) * WAYS], *best = set;
    for (struct bucket *b = set; b < set + WAYS; b++) {
        if (b->peer == peer) {
            return b;
        }
        if (b->empty < best->empty) {
            best = b;
        }
    }
    *best = (struct bucket){.peer = peer};
    return best;
}

struct auth *auth__new(struct loop *l)
{
    struct auth *a = xcalloc(1, sizeof *a);
    a->loop = l;
    return a;
}

static void forget(struct auth *a)
{
    if (a->token != NULL) {
        explicit_bzero(a->token, strlen(a->token));
    }
    free(a->token);
    a->token = NULL;
    explicit_bzero(a->codes, sizeof a->codes);
}

void auth__free(struct auth *a)
{
    forget(a);
    free(a);
}

void auth__set_token(struct auth *a, struct str token)
{
    forget(a);
    a->token = str_dup(token);
}

enum auth_answer auth__check(struct auth *a, struct str authorization, struct str cookie)
{
    bool named = false, found = false;
    if (authorization.p != NULL) {
        struct str scheme = str_cut(&authorization, ' ');
        bool right = str_caseeqz(scheme, "Bearer") && a->token != NULL && a->token[0] != '\0' &&
                     str_eq_secret(str_trim(authorization), str_of(a->token));
        return right ? AUTH_TOKEN : AUTH_WRONG;
    }
    // any cookie of our name will do: a hub on another port of this host may have set one too
    while (cookie.n != 0) {
        struct str pair = str_trim(str_cut(&cookie, ';'));
        if (str_starts(pair, "afloat=")) {
            named = true;
            found |= is_cookie(a, str_from(pair, 7));
        }
    }
    return found ? AUTH_COOKIE : named ? AUTH_WRONG : AUTH_NONE;
}

void auth__make_code(struct auth *a, int64_t seconds, char out[SECRET_TEXT])
{
    struct code *place = a->codes;
    for (size_t i = 1; i < CODES; i++) {
        place = a->codes[i].expires < place->expires ? &a->codes[i] : place;
    }
    auth__random(out);
    memcpy(place->text, out, SECRET_TEXT);
    place->expires = loop_now(a->loop) + (uint64_t)MAX(seconds, 1) * 1000;
}

bool auth__redeem(struct auth *a, struct str code, char out[SECRET_TEXT])
{
    struct code *hit = find_code(a, code);
    if (hit == NULL || hit->expires <= loop_now(a->loop) || a->token == NULL) {
        return false;
    }
    explicit_bzero(hit, sizeof *hit);
    uint64_t last = a->serials[(a->made + COOKIES - 1) % COOKIES];
    uint64_t serial = MAX((uint64_t)time_wall_ms(), last + 1);
    a->serials[a->made++ % COOKIES] = serial;
    make_cookie(a, serial, out);
    return true;
}

unsigned auth__failed(struct auth *a, struct str peer)
{
    uint64_t now = loop_now(a->loop);
    struct bucket *b = bucket_of(a, map_hash(peer) | 1);
    uint64_t empty = MAX(b->empty, now) + REFILL_MS;
    uint64_t full = now + (uint64_t)BURST * REFILL_MS;
    if (empty > full) {
        return (unsigned)((empty - full + 999) / 1000);
    }
    b->empty = empty;
    return 0;
}
