#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "proto/ops.h"

/// A value for one parameter of an operation. By the type the operation gives it, `value` is a
/// string, or the text of a number, boolean or JSON value. Rows with a NULL value are left out.
struct ask_param {
    const char *name;
    const char *value;
};

/// The path with its query and the body (a JSON object, or empty) for an operation. ERR_USAGE when
/// a value does not fit its type.
int ask_build(enum op_id op, const struct ask_param *params, size_t n, struct buf *path,
              struct buf *body, struct err *e) MUST_CHECK;
