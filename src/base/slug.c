// Names of workspaces.
//
//     /src/Backend_API          -> backend-api
//     /src/проект               -> project            (nothing of it can be in a slug)
//     /other/backend_api        -> backend-api-3f9c01aa  when the first one is taken
//
// A slug is also a directory's name below bots/, where the store allows 64 bytes: the name of a project is
// cut so that a `-` and eight digits still fit.

#include "base/slug.h"

#include <assert.h>

#include "base/path.h"
#include "base/sha256.h"

enum { BASE_MAX = SLUG_MAX - 9 };

static bool fits(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/// At most `max` bytes of the slug of the path's last part; returns how many.
static size_t write_base(const char *path, size_t max, char out[SLUG_TEXT])
{
    struct str name = path_base(str_of(path));
    size_t n = 0;
    for (size_t i = 0; i < name.n && n < max; i++) {
        char c = name.p[i];
        c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        if (fits(c)) {
            out[n++] = c;
        } else if (n != 0 && out[n - 1] != '-') {
            out[n++] = '-';
        }
    }
    while (n != 0 && out[n - 1] == '-') {
        n--;
    }
    if (n == 0) {
        memcpy(out, "project", 7);
        n = 7;
    }
    assert(n < SLUG_TEXT);
    out[n] = '\0';
    return n;
}

const char *slug_of(const char *path, char out[SLUG_TEXT])
{
    write_base(path, BASE_MAX, out);
    return out;
}

const char *slug_taken(const char *path, unsigned digits, char out[SLUG_TEXT])
{
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    assert(digits >= 8 && digits <= SLUG_HASH_MAX);
    size_t n = write_base(path, SLUG_MAX - 1 - digits, out);
    sha256_of(str_of(path), hash);
    sha256_hex(hash, hex);
    snprintf(out + n, SLUG_TEXT - n, "-%.*s", (int)digits, hex);
    return out;
}

bool slug_valid(struct str s)
{
    bool ok = s.n != 0 && s.n <= SLUG_MAX && fits(s.p[0]);
    for (size_t i = 1; ok && i < s.n; i++) {
        ok = fits(s.p[i]) || s.p[i] == '-';
    }
    return ok;
}

int slug_check(struct str s, struct err *e)
{
    return slug_valid(s) ? 0
                         : err_set(e, ERR_INVALID,
                                   "'%.*s' names no project: use a-z, 0-9 and '-', 64 at most",
                                   (int)MIN(s.n, (size_t)80), s.p);
}
