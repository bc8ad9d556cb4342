#pragma once

#include "base/err.h"
#include "base/vec.h"

// The address of a database: what libpq takes, with our rule for TLS.

struct pg_url {
    vec(char *) keys;   // of libpq's parameters, NULL at the end
    vec(char *) values; // as many
    char *shown;        // for people: host and database, never a password
    bool local;         // a socket or a loopback address
};

/// Read `text` ("postgresql://user@host/db?sslmode=..."). Without `sslmode` in it, TLS with a verified
/// certificate and host name is required (verify-full), unless every host is a socket or a loopback
/// address; PGSSLMODE in the environment does not count. ERR_INVALID says what is wrong, without
/// the text: it may hold a password. On failure `out` holds nothing. Any thread.
int pg_url_read(struct pg_url *out, const char *text, struct err *e) MUST_CHECK;
/// Free it. Zeroed memory is allowed.
void pg_url_fini(struct pg_url *u);
