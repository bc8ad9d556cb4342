// Who may call over TCP: the token, the browser's cookie, and one-time codes that buy a cookie.
//
//     token file ──> Authorization: Bearer TOKEN
//     afloat open ─> code (60 s, once) ─> GET /?code= ─> cookie (until the token is replaced)
//
// Secrets have 256 bits and are compared in constant time, and against every candidate, so that
// neither a match's position nor its prefix shows in the time taken. Cookies and codes are few and
// live in memory: the oldest gives way, a restart or a new token ends them all.
//
// Failures are limited by a bucket per address: BURST at once, then one a second. The right secret
// always works, so a stranger's guesses cannot lock the owner out. The table has a fixed size; an
// address that falls out of it begins anew.

#include <sys/random.h>

#include "server/server_int.h"

enum { CODES = 8, COOKIES = 32, BUCKETS = 256, WAYS = 4, BURST = 10, REFILL_MS = 1000 };

struct secret {
    char text[SECRET_TEXT]; // "" when the place is free
    uint64_t order; // the lowest gives way: when a code expires, or how many cookies were before
};

struct bucket {
    uint64_t peer;  // hash of the address; 0 when the place is free
    uint64_t empty; // monotonic time at which all failures are forgiven
};

struct auth {
    struct loop *loop;
    char *token;
    struct secret codes[CODES], cookies[COOKIES];
    uint64_t made; // cookies so far
    struct bucket buckets[BUCKETS];
};

/// Make a secret in the place of `list` with the lowest order.
static void make_secret(struct secret *list, size_t n, uint64_t order, char out[SECRET_TEXT])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char raw[33] = {0}; // 32 random bytes are 43 digits, the last of 4 bits
    struct secret *place = list;
    for (size_t i = 1; i < n; i++) {
        place = list[i].order < place->order ? &list[i] : place;
    }
    for (size_t got = 0; got < 32;) {
        ssize_t more = getrandom(raw + got, 32 - got, 0);
        got += more > 0 ? (size_t)more : 0;
    }
    for (size_t i = 0; i < SECRET_TEXT - 1; i++) {
        size_t bit = i * 6;
        unsigned pair = (unsigned)raw[bit / 8] << 8 | raw[bit / 8 + 1];
        place->text[i] = digits[pair >> (10 - bit % 8) & 63];
    }
    place->text[SECRET_TEXT - 1] = '\0';
    place->order = order;
    memcpy(out, place->text, SECRET_TEXT);
    explicit_bzero(raw, sizeof raw);
}

/// The secret of `list` that `given` is, or NULL. All are compared.
static struct secret *find_secret(struct secret *list, size_t n, struct str given)
{
    struct secret *found = NULL;
    for (size_t i = 0; i < n; i++) {
        bool same = str_eq_secret(given, (struct str){list[i].text, SECRET_TEXT - 1});
        found = same && list[i].text[0] != '\0' ? &list[i] : found;
    }
    return found;
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
    explicit_bzero(a->cookies, sizeof a->cookies);
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
    while (cookie.n !=
           0) { // any of our name will do: another port of this host may have set one too
        struct str pair = str_trim(str_cut(&cookie, ';'));
        if (str_starts(pair, "afloat=")) {
            named = true;
            found |= find_secret(a->cookies, COOKIES, str_from(pair, 7)) != NULL;
        }
    }
    return found ? AUTH_COOKIE : named ? AUTH_WRONG : AUTH_NONE;
}

void auth__make_code(struct auth *a, int64_t seconds, char out[SECRET_TEXT])
{
    make_secret(a->codes, CODES, loop_now(a->loop) + (uint64_t)MAX(seconds, 1) * 1000, out);
}

bool auth__redeem(struct auth *a, struct str code, char out[SECRET_TEXT])
{
    struct secret *hit = find_secret(a->codes, CODES, code);
    if (hit == NULL || hit->order <= loop_now(a->loop)) {
        return false;
    }
    explicit_bzero(hit, sizeof *hit);
    make_secret(a->cookies, COOKIES, ++a->made, out);
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
