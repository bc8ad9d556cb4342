// Who may call over TCP: the token, the browser's cookie, and one-time codes that buy a cookie.
//
//     token file ──> Authorization: Bearer TOKEN
//     afloat open ─> code (60 s, once) ─> GET /?code= ─> cookie (until the token is replaced)
//
// Secrets have 256 bits and are compared in constant time, and against every candidate, so that
// neither a match's position nor its prefix shows in the time taken. Sessions and codes are few and
// live in memory: the oldest gives way, a restart or a new token ends them all.
//
// Failures are limited by a bucket per address: BURST at once, then one a second. The right secret
// always works, so a stranger's guesses cannot lock the owner out. The table has a fixed size; an
// address that falls out of it begins anew.

#include <sys/random.h>

#include "server/server_int.h"

enum { CODES = 8, SESSIONS = 32, BUCKETS = 256, WAYS = 4, BURST = 10, REFILL_MS = 1000 };

struct code {
    char text[SECRET_TEXT];
    uint64_t expires; // monotonic; 0 when the place is free
};

struct session {
    char text[SECRET_TEXT]; // "" when the place is free
    uint64_t made;
};

struct bucket {
    uint64_t peer;  // hash of the address; 0 when the place is free
    uint64_t empty; // monotonic time at which all failures are forgiven
};

struct auth {
    struct loop *loop;
    char *token;
    struct code codes[CODES];
    struct session sessions[SESSIONS];
    uint64_t made; // sessions so far
    struct bucket buckets[BUCKETS];
};

static void make_secret(char out[SECRET_TEXT])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char raw[33] = {0}; // 32 random bytes are 43 digits, the last of 4 bits
    size_t n = 0;
    while (n < 32) {
        ssize_t got = getrandom(raw + n, 32 - n, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    for (size_t i = 0; i < SECRET_TEXT - 1; i++) {
        size_t bit = i * 6;
        unsigned pair = (unsigned)raw[bit / 8] << 8 | raw[bit / 8 + 1];
        out[i] = digits[pair >> (10 - bit % 8) & 63];
    }
    out[SECRET_TEXT - 1] = '\0';
    explicit_bzero(raw, sizeof raw);
}

static bool is_session(const struct auth *a, struct str value)
{
    bool found = false;
    for (size_t i = 0; i < SESSIONS; i++) {
        found |=
            a->sessions[i].text[0] != '\0' && str_eq_secret(value, str_of(a->sessions[i].text));
    }
    return found;
}

// Any of several cookies of our name will do: another port of this host may have set one too.
static enum auth_answer check_cookie(const struct auth *a, struct str cookie)
{
    bool named = false, found = false;
    while (cookie.n != 0) {
        struct str pair = str_trim(str_cut(&cookie, ';'));
        if (str_starts(pair, "afloat=")) {
            named = true;
            found |= is_session(a, str_from(pair, 7));
        }
    }
    return found ? AUTH_COOKIE : named ? AUTH_WRONG : AUTH_NONE;
}

static struct bucket *bucket_of(struct auth *a, uint64_t peer)
{
    struct bucket *set = &a->buckets[peer % (BUCKETS / WAYS) * WAYS], *best = set;
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
    explicit_bzero(a->sessions, sizeof a->sessions);
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

enum auth_answer auth__check(const struct auth *a, struct str authorization, struct str cookie)
{
    if (authorization.p == NULL) {
        return check_cookie(a, cookie);
    }
    struct str scheme = str_cut(&authorization, ' ');
    struct str given = str_trim(authorization);
    bool right = str_caseeqz(scheme, "Bearer") && a->token != NULL && a->token[0] != '\0' &&
                 str_eq_secret(given, str_of(a->token));
    return right ? AUTH_TOKEN : AUTH_WRONG;
}

void auth__make_code(struct auth *a, int64_t seconds, char out[SECRET_TEXT])
{
    struct code *place = &a->codes[0];
    for (size_t i = 1; i < CODES; i++) {
        if (a->codes[i].expires < place->expires) {
            place = &a->codes[i];
        }
    }
    make_secret(place->text);
    place->expires = loop_now(a->loop) + (uint64_t)MAX(seconds, 1) * 1000;
    memcpy(out, place->text, SECRET_TEXT);
}

static void make_session(struct auth *a, char out[SECRET_TEXT])
{
    struct session *place = &a->sessions[0];
    for (size_t i = 1; i < SESSIONS; i++) {
        if (a->sessions[i].made < place->made) {
            place = &a->sessions[i];
        }
    }
    make_secret(place->text);
    place->made = ++a->made;
    memcpy(out, place->text, SECRET_TEXT);
}

bool auth__redeem(struct auth *a, struct str code, char out[SECRET_TEXT])
{
    uint64_t now = loop_now(a->loop);
    struct code *hit = NULL;
    for (size_t i = 0; i < CODES; i++) {
        struct code *c = &a->codes[i];
        bool same = str_eq_secret(code, (struct str){c->text, SECRET_TEXT - 1});
        if (same && c->expires > now) {
            hit = c;
        }
    }
    if (hit == NULL) {
        return false;
    }
    explicit_bzero(hit, sizeof *hit);
    make_session(a, out);
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
