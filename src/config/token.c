// The bearer token's file.
//
// Made once: of several processes that find none the first wins, and the others read what it made. Replaced
// in one step: a process that reads meanwhile gets the old token or the new one, never half of one.

#include "config/token.h"

#include "base/path.h"
#include "base/random.h"
#include "config/private_int.h"

enum { FILE_MAX = 256 };

/// A new token and a newline.
static void make(char line[TOKEN_LEN + 2])
{
    random_hex(line, TOKEN_LEN + 1);
    memcpy(line + TOKEN_LEN, "\n", 2);
}

static bool is_token(struct str s)
{
    size_t i = 0;
    while (i < s.n && ((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f'))) {
        i++;
    }
    return i == s.n && s.n == TOKEN_LEN;
}

int token_read(const char *path, char out[TOKEN_LEN + 1], struct err *e)
{
    struct buf b = {.max = FILE_MAX};
    int rc = private__read(path, &b, e);
    struct str token = str_trim(buf_str(&b));
    if (rc == 0 && !is_token(token)) {
        rc = err_set(e, ERR_CORRUPT, "no token in '%s': make a new one with: afloat token rotate",
                     path);
    }
    if (rc == 0) {
        memcpy(out, token.p, TOKEN_LEN);
        out[TOKEN_LEN] = '\0';
    }
    buf_fini(&b);
    return rc;
}

int token_load(const char *path, char out[TOKEN_LEN + 1], struct err *e)
{
    int rc = token_read(path, out, e);
    if (rc != ERR_NOT_FOUND) {
        return rc;
    }
    char line[TOKEN_LEN + 2];
    make(line);
    rc = path_write_new(path, str_of(line), 0600, e);
    return rc == 0 || rc == ERR_CONFLICT ? token_read(path, out, e) : rc;
}

int token_rotate(const char *path, char out[TOKEN_LEN + 1], struct err *e)
{
    char line[TOKEN_LEN + 2];
    make(line);
    int rc = path_write_atomic(path, str_of(line), 0600, e);
    if (rc == 0) {
        memcpy(out, line, TOKEN_LEN);
        out[TOKEN_LEN] = '\0';
    }
    return rc;
}
