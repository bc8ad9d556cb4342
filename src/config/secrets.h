#pragma once

#include "base/err.h"
#include "base/str.h"

// Named secrets in secrets.json, a file that only we can read: {"NAME": "value", ...}. Changes by
// several processes at once are all kept. Values are never logged nor put into an error.

/// Longest name and value taken.
enum { SECRET_NAME_MAX = 64, SECRET_VALUE_MAX = 64 * 1024 };

/// A name is letters, digits, `_`, `-` and `.`; ERR_INVALID otherwise.
int secrets_check_name(const char *name, struct err *e) MUST_CHECK;

/// Set or replace. A value is UTF-8 without NUL, not empty. ERR_INVALID otherwise.
int secrets_set(const char *path, const char *name, struct str value, struct err *e) MUST_CHECK;

/// ERR_NOT_FOUND when there is no such secret.
int secrets_remove(const char *path, const char *name, struct err *e) MUST_CHECK;

/// The value in `*out`, NUL-terminated; the caller frees it. ERR_NOT_FOUND when there is none.
int secrets_get(const char *path, const char *name, char **out, struct err *e) MUST_CHECK;

/// The one secret that the file `path` holds, without white space at its ends; the caller frees it.
/// ERR_DENIED, with the command that fixes it, when other users can read the file.
int secrets_read_file(const char *path, char **out, struct err *e) MUST_CHECK;

/// Make every value known to base/redact.h, under its name. A file that cannot be read is skipped: the part that
/// needs a secret reports why. Blocks.
void secrets_know(const char *path);

/// The caller's storage, ended with secret_names_fini().
struct secret_names {
    char **p;
    size_t n, cap;
};
/// Read the names, sorted; a missing file has none. Blocks.
int secrets_list(const char *path, struct secret_names *out, struct err *e) MUST_CHECK;
void secret_names_fini(struct secret_names *names);
