// Named secrets in one file.
//
// Every change is read, change, replace under a lock, so that two programs changing different names
// at the same time lose nothing. The lock is a file of its own: the secrets themselves are replaced
// by rename, and a lock on a replaced file guards nothing.
//
//     flock secrets.json.lock ── read secrets.json ── write it anew (0600, synced, renamed) ── unlock
//
// Readers take no lock: they see the file before or after a rename. A file that is damaged or open to
// others is never overwritten; the error names the problem, never the contents.

#include "config/secrets.h"

#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/redact.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "config/private_int.h"

enum { FILE_MAX = 16 * 1024 * 1024 };

/// The parsed file: an object of strings. Ends with doc_fini().
struct doc {
    struct arena arena;
    struct buf text; // the values point into it
    struct json *root;
};

static void doc_fini(struct doc *d)
{
    arena_fini(&d->arena);
    if (d->text.p != NULL) {
        explicit_bzero(d->text.p, d->text.n);
    }
    buf_fini(&d->text);
}

static bool is_object_of_strings(const struct json *v)
{
    if (v->type != JSON_OBJ) {
        return false;
    }
    json_foreach_member (m, v) {
        if (m->value.type != JSON_STR) {
            return false;
        }
    }
    return true;
}

/// Read `path`; a missing file is an empty object. Call doc_fini() whatever is returned.
static int doc_read(struct doc *d, const char *path, struct err *e)
{
    d->arena = (struct arena){0};
    buf_init(&d->text, FILE_MAX);
    int rc = private__read(path, &d->text, e);
    if (rc == ERR_NOT_FOUND) {
        buf_addz(&d->text, "{}");
        rc = 0;
    }
    if (rc < 0) {
        return rc;
    }
    // the parser's own message might quote what it found
    if (json_parse(&d->root, &d->arena, buf_str(&d->text), NULL, NULL) < 0 ||
        !is_object_of_strings(d->root)) {
        return err_set(e, ERR_CORRUPT, "'%s' is damaged: it must be a JSON object of strings",
                       path);
    }
    return 0;
}

/// Write `d` with `name` set to `value`, or without `name` when `value` is NULL.
static int doc_write(const struct doc *d, const char *path, const char *name,
                     const struct str *value, struct err *e)
{
    struct buf out = {.max = FILE_MAX};

    struct jw w = {.out = &out};
    jw_obj(&w);
    json_foreach_member (m, d->root) {
        if (!str_eqz(m->key, name)) {
            jw_key_str(&w, m->key);
            jw_str(&w, m->value.s);
        }
    }
    if (value != NULL) {
        jw_kstr(&w, name, *value);
    }
    jw_end_obj(&w);
    buf_addc(&out, '\n');
    int rc = buf_ok(&out) ? path_write_atomic(path, buf_str(&out), 0600, e)
                          : err_set(e, ERR_TOO_LARGE, "'%s' would become too large", path);
    explicit_bzero(out.p, out.n);
    buf_fini(&out);
    return rc;
}

static int change(const char *path, const char *name, const struct str *value, struct err *e)
{
    struct doc d;
    int fd = path_lock(path, e);
    if (fd < 0) {
        return fd;
    }
    int rc = doc_read(&d, path, e);
    if (rc == 0 && value == NULL && json_get(d.root, name) == NULL) {
        rc = err_set(e, ERR_NOT_FOUND, "there is no secret '%s'", name);
    }
    if (rc == 0) {
        rc = doc_write(&d, path, name, value, e);
    }
    doc_fini(&d);
    close(fd);
    return rc;
}

int secrets_check_name(const char *name, struct err *e)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t n = strlen(name);
    bool good = n != 0 && n <= SECRET_NAME_MAX && strspn(name, allowed) == n;
    return good ? 0
                : err_set(e, ERR_INVALID,
                          "a secret's name is 1 to %d letters, digits, '_', '-' or '.'",
                          SECRET_NAME_MAX);
}

int secrets_set(const char *path, const char *name, struct str value, struct err *e)
{
    if (secrets_check_name(name, e) < 0) {
        return ERR_INVALID;
    }
    if (value.n == 0 || value.n > SECRET_VALUE_MAX) {
        return err_set(e, ERR_INVALID, "the value of '%s' must have 1 to %d bytes", name,
                       SECRET_VALUE_MAX);
    }
    if (memchr(value.p, '\0', value.n) != NULL || !utf8_valid(value)) {
        return err_set(e, ERR_INVALID, "the value of '%s' is not UTF-8 text", name);
    }
    return change(path, name, &value, e);
}

int secrets_remove(const char *path, const char *name, struct err *e)
{
    return change(path, name, NULL, e);
}

int secrets_get(const char *path, const char *name, char **out, struct err *e)
{
    struct doc d;
    *out = NULL;
    int rc = doc_read(&d, path, e);
    const struct json *v = rc == 0 ? json_get(d.root, name) : NULL;
    if (v != NULL) {
        *out = str_dup(v->s);
    } else if (rc == 0) {
        rc = err_set(e, ERR_NOT_FOUND, "there is no secret '%s'", name);
    }
    doc_fini(&d);
    return rc;
}

int secrets_read_file(const char *path, char **out, struct err *e)
{
    struct buf text = {.max = SECRET_VALUE_MAX};
    *out = NULL;
    int rc = private__read(path, &text, e);
    struct str value = str_trim(buf_str(&text));
    if (rc == 0 && (value.n == 0 || str_index(value, '\0') >= 0)) {
        rc = err_set(e, ERR_INVALID, "'%s' holds no secret", path);
    }
    if (rc == 0) {
        *out = str_dup(value);
    }
    if (text.p != NULL) {
        explicit_bzero(text.p, text.n);
    }
    buf_fini(&text);
    return rc;
}

int secrets_list(const char *path, struct secret_names *out, struct err *e)
{
    struct doc d;
    *out = (struct secret_names){0};
    int rc = doc_read(&d, path, e);
    if (rc == 0) {
        json_foreach_member (m, d.root) {
            vec_push(out, str_dup(m->key));
        }
    }
    str_sort((void *)out->p, out->n);
    doc_fini(&d);
    return rc;
}

void secrets_know(const char *path)
{
    struct doc d;
    struct err ignored;
    if (doc_read(&d, path, &ignored) == 0) {
        json_foreach_member (m, d.root) {
            redact_add(m->key, json_str(&m->value, ""));
        }
    }
    doc_fini(&d);
}

void secret_names_fini(struct secret_names *names)
{
    vec_fini_each(names, free);
}
