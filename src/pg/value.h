#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

// What goes to a server and what comes back.

/// A parameter of a statement: text, or PostgreSQL's binary form (arrays), or NULL.
struct pg_param {
    struct str value;
    bool null, binary;
};
#define PG_NULL ((struct pg_param){.null = true})

static inline struct pg_param pg_text(struct str s)
{
    return (struct pg_param){.value = {s.p != NULL ? s.p : "", s.n}};
}

/// An empty text is NULL.
static inline struct pg_param pg_text_or_null(struct str s)
{
    return s.n != 0 ? pg_text(s) : PG_NULL;
}

static inline struct pg_param pg_bool(bool on)
{
    return pg_text(on ? STR("t") : STR("f"));
}

/// Room for a number's text.
struct pg_number {
    char text[24];
};
/// The number as text, in `room`.
struct pg_param pg_int(struct pg_number *room, int64_t n);

/// An array of texts, built in `out` (PostgreSQL's binary form), which the parameter borrows. Text must
/// have no NUL byte: PostgreSQL refuses it.
void pg_array_begin(struct buf *out, size_t n);
void pg_array_add(struct buf *out, struct str text);
struct pg_param pg_array(const struct buf *out);

/// What a statement gave.
struct pg_result;
size_t pg_rows(const struct pg_result *r);
/// Borrowed for as long as the result; NULL is an empty text.
struct str pg_get(const struct pg_result *r, size_t row, int column);
bool pg_is_null(const struct pg_result *r, size_t row, int column);
/// The column as a number; 0 when it is none.
int64_t pg_get_int(const struct pg_result *r, size_t row, int column);
bool pg_get_bool(const struct pg_result *r, size_t row, int column);

/// SQLSTATEs that functions of our migrations raise, as codes: AF404 ERR_NOT_FOUND, AF409 ERR_CONFLICT,
/// AF403 ERR_DENIED, AF400 ERR_INVALID. A full disk of the server is -ENOSPC, a missing privilege
/// ERR_DENIED, anything else -EIO.
