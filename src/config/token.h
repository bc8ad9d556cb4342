#pragma once

#include "base/err.h"

/// The bearer token: 256 random bits as hexadecimal digits, in a file that only we can read.
enum { TOKEN_LEN = 64 };

/// Read the token at `path`. ERR_NOT_FOUND when there is none, ERR_DENIED when the file belongs to
/// another user or others may read it, ERR_CORRUPT when it does not hold a token.
int token_read(const char *path, char out[TOKEN_LEN + 1], struct err *e) MUST_CHECK;

/// Read the token, making one first when there is none. Of several processes doing so at the same
/// time one makes it and all get the same.
int token_load(const char *path, char out[TOKEN_LEN + 1], struct err *e) MUST_CHECK;

/// Replace the token, whatever the file holds, and return the new one. On failure the old one stays.
int token_rotate(const char *path, char out[TOKEN_LEN + 1], struct err *e) MUST_CHECK;
