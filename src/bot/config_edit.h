#pragma once

#include "base/buf.h"
#include "base/json.h"

// Changing a config.md as a person would: the lines that are meant, and no others. Pure, on any thread.

/// Write `text` to `out` with `keys` changed and, when `instructions.p` is not NULL, another body.
///
/// `keys` (NULL for none) is an object: a key of config.md and its value; null takes the key out; the
/// value of `worktree` is true, false, or an object whose members are set in `[worktree]`. A key that is
/// not there takes the place of the comment `# key = ...`, or the first line. A comment after a value that
/// changes goes with it; everything else stays byte for byte.
/// ERR_PARSE when `text` has no settings that could be read; ERR_INVALID for a value that TOML has not;
/// ERR_UNSUPPORTED where only a person can do it, with what to do. `out` is then undefined.
int bot_config_edit(struct buf *out, struct str text, const struct json *keys,
                    struct str instructions, struct err *e) MUST_CHECK;
