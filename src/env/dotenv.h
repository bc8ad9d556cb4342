#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "env/vars.h"

enum {
    ENV_VALUE_MAX = 1 << 20,     // bytes of one value
    ENV_EXPANDED_MAX = 64 << 20, // bytes of the arena of `vars`, from which on nothing is expanded
};

/// Append `text` with every `${NAME}` replaced by its value (nothing when it is not set); `$${` gives
/// `${`, any other `$` stands for itself. ERR_PARSE for `${` without a name and its brace. ERR_TOO_LARGE when
/// `out` is full, or all values take too much memory: a few lines can each double the one before.
int env_expand(struct buf *out, struct str text, const struct env_vars *vars,
               struct err *e) MUST_CHECK;

/// Set the variables of a dotenv text in `vars`, from the first line on; later lines see earlier ones.
///
///     # a comment           export NAME=value       NAME = plain text # comment
///     A='as it is, $ too'   B="with ${NAME} and \n escapes"     both may go over several lines
///
/// ERR_PARSE with the line in `e`; `vars` then holds what came before it. Nothing is ever run.
int env_dotenv_read(struct env_vars *vars, struct str text, struct err *e) MUST_CHECK;
