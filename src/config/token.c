// The bearer token's file.
//
// Made once: written to a file of its own and then linked to its name, which fails if the name is
// taken. So a reader never sees half a token, and of several makers the first wins:
//
//     write token.PID (0600, synced) ── link ──> token     taken: read what the other one made
//                         └── unlink, always
//
// Replaced by rename: whoever reads meanwhile gets the old or the new one.

#include "config/token.h"

#include <errno.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/path.h"
#include "config/private_int.h"

enum { TOKEN_BYTES = TOKEN_LEN / 2, FILE_MAX = 256 };

static int make(char out[TOKEN_LEN + 1], struct err *e)
{
    unsigned char random[TOKEN_BYTES];
    ssize_t n;
    while ((n = getrandom(random, sizeof random, 0)) < 0 && errno == EINTR) {
    }
    if (n != (ssize_t)sizeof random) {
        return err_sys(e, "cannot get random bytes for a token");
    }
    for (size_t i = 0; i < sizeof random; i++) {
        snprintf(out + 2 * i, 3, "%02x", random[i]);
    }
    return 0;
}

static int write_file(const char *path, const char token[TOKEN_LEN + 1], struct err *e)
{
    char line[TOKEN_LEN + 2];
    snprintf(line, sizeof line, "%s\n", token);
    return path_write_atomic(path, str_of(line), 0600, e);
}

/// Make the file unless it is there by now.
static int create(const char *path, struct err *e)
{
    char token[TOKEN_LEN + 1];
    char *temp = xasprintf("%s.%ld", path, (long)getpid());

    int rc = make(token, e);
    if (rc == 0) {
        rc = write_file(temp, token, e);
    }
    if (rc == 0) {
        if (link(temp, path) < 0 && errno != EEXIST) {
            rc = err_sys(e, "cannot create '%s'", path);
        }
        unlink(temp);
    }
    free(temp);
    return rc;
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
    rc = create(path, e);
    return rc == 0 ? token_read(path, out, e) : rc;
}

int token_rotate(const char *path, char out[TOKEN_LEN + 1], struct err *e)
{
    char token[TOKEN_LEN + 1];
    int rc = make(token, e);
    if (rc == 0) {
        rc = write_file(path, token, e);
    }
    if (rc == 0) {
        memcpy(out, token, sizeof token);
    }
    return rc;
}
