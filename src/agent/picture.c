// Pictures: taken in, and loaded for a request.
//
// The first bytes of a file tell its kind; its name is only shown. The kinds are those that all providers take.

#include "agent/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/path.h"
#include "base/sha256.h"

static const struct kind {
    const char *media, *ext;
    const char *magic; // at its beginning
    size_t n;
    const char *more; // at byte 8; NULL: nothing
} kinds[] = {{"image/png", "png", "\x89PNG\r\n\x1a\n", 8, NULL},
             {"image/jpeg", "jpg", "\xff\xd8\xff", 3, NULL},
             {"image/gif", "gif", "GIF8", 4, NULL},
             {"image/webp", "webp", "RIFF", 4, "WEBP"}};

static const struct kind *kind_of(struct str bytes)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct kind *k = &kinds[i];
        if (bytes.n > 12 && memcmp(bytes.p, k->magic, k->n) == 0 &&
            (k->more == NULL || memcmp(bytes.p + 8, k->more, strlen(k->more)) == 0)) {
            return k;
        }
    }
    return NULL;
}

/// Read a regular file of at most PICTURE_MAX bytes.
static int read_file(const char *path, int flags, struct buf *out, struct err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd < 0) {
        return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : -errno, "cannot open '%s': %s", path,
                       err_text(-errno));
    }
    int rc = fstat(fd, &st) < 0 ? err_sys(e, "cannot look at '%s'", path) : 0;
    if (rc == 0 && !S_ISREG(st.st_mode)) {
        rc = err_set(e, ERR_INVALID, "'%s' is not a file", path);
    } else if (rc == 0 && st.st_size > PICTURE_MAX) {
        rc = err_set(e, ERR_TOO_LARGE, "'%s' is too large: %.1f MB, and a picture may have %d MB",
                     path, (double)st.st_size / (1 << 20), PICTURE_MAX >> 20);
    } else if (rc == 0 && (rc = path_read_fd(fd, out, &st)) < 0) {
        err_set(e, rc, "cannot read '%s': %s", path, err_text(rc));
    }
    close(fd);
    return rc;
}

/// Read a picture as a client gave it; `name` is borrowed from `given`.
static int read_given(const struct json *given, struct buf *bytes, struct str *name, struct err *e)
{
    const struct json *data = json_get(given, "data");
    if (given->type == JSON_OBJ && data != NULL && data->type == JSON_STR) {
        *name = json_str(json_get(given, "name"), "picture");
        if (data->s.n > (size_t)PICTURE_MAX / 3 * 4 + 4) {
            return err_set(e, ERR_TOO_LARGE, "it is too large: a picture may have %d MB",
                           PICTURE_MAX >> 20);
        }
        return base64_decode(bytes, data->s)
                   ? 0
                   : err_set(e, ERR_INVALID, "'data' of a picture is not base64");
    }
    struct str asked = json_str(given, "");
    char *path = str_dup(asked);
    *name = path_base(asked);
    int rc = path[0] == '/' && strlen(path) == asked.n
                 ? read_file(path, 0, bytes, e)
                 : err_set(e, ERR_INVALID, "a picture is an absolute path, or {data} in base64");
    free(path);
    return rc;
}

static int take_one(const struct json *given, const char *home, const char *dir, struct jw *w,
                    struct err *e)
{
    struct buf bytes = {.max = PICTURE_MAX + 3}; // base64 of PICTURE_MAX may have three bytes more
    struct str name;
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    int rc = read_given(given, &bytes, &name, e);
    const struct kind *k = rc == 0 ? kind_of(buf_str(&bytes)) : NULL;
    if (rc == 0 && k == NULL) {
        rc = err_set(e, ERR_INVALID, "'%.*s' is no PNG, JPEG, GIF or WebP picture",
                     (int)MIN(name.n, (size_t)100), name.p);
    }
    if (rc == 0) {
        sha256_of(buf_str(&bytes), hash);
        char *path = xasprintf("%s/images/%s.%s", dir, sha256_hex(hash, hex), k->ext);
        char *full = path_join(home, path), *folder = str_dup(path_dir(str_of(full)));
        rc = path_mkdirs(folder, 0700, e);
        if (rc == 0 && access(full, R_OK) != 0) {
            rc = path_write_atomic(full, buf_str(&bytes), 0600, e);
        }
        jw_obj(w);
        jw_kstrz(w, "path", path);
        jw_kstrz(w, "media_type", k->media);
        jw_kint(w, "bytes", (int64_t)bytes.n);
        jw_kstr(w, "name", (struct str){name.p, MIN(name.n, (size_t)200)});
        jw_end_obj(w);
        free(folder);
        free(full);
        free(path);
    }
    buf_fini(&bytes);
    return rc;
}

int picture_take(const struct json *given, const char *home, const char *dir, struct buf *out,
                 struct err *e)
{
    int rc = 0;
    if (given->type != JSON_ARR || given->n > PICTURES_A_MESSAGE) {
        return err_set(e, ERR_INVALID, "'images' must be a list of at most %d pictures",
                       PICTURES_A_MESSAGE);
    }
    struct jw w = {.out = out};
    jw_arr(&w);
    for (size_t i = 0; rc == 0 && i < given->n; i++) {
        rc = take_one(&given->items[i], home, dir, &w, e);
    }
    if (rc == 0) {
        jw_end_arr(&w);
    }
    return rc;
}

/// "DIR/images/SHA256.EXT", and nothing that leads elsewhere: requests pass through plugins.
static bool is_ours(const char *path)
{
    struct str base = path_base(str_of(path)), dir = path_dir(str_of(path));
    bool ours = str_eqz(path_base(dir), "images") && path[0] != '/' && base.n > SHA256_HEX &&
                base.p[SHA256_HEX - 1] == '.' && strstr(path, "..") == NULL;
    for (size_t i = 0; ours && i < SHA256_HEX - 1; i++) {
        char c = base.p[i];
        ours = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    return ours;
}

int picture_load(const char *home, const char *path, struct buf *out, struct err *e)
{
    struct buf bytes = {.max = PICTURE_MAX + 3};
    if (!is_ours(path)) {
        return err_set(e, ERR_INVALID, "not a picture of a session");
    }
    char *full = path_join(home, path);
    int rc = read_file(full, O_NOFOLLOW, &bytes, e);
    const struct kind *k = rc == 0 ? kind_of(buf_str(&bytes)) : NULL;
    if (k != NULL) {
        buf_addf(out, "data:%s;base64,", k->media);
        base64_encode(out, buf_str(&bytes));
    } else if (rc == 0) {
        rc = err_set(e, ERR_INVALID, "'%s' is no picture", full);
    }
    buf_fini(&bytes);
    free(full);
    return rc;
}
