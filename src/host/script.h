#pragma once

#include "base/base.h"

// `afloat host python|node|c PATH`: the process of a plugin in a language that we do not run ourselves.

/// Become the interpreter of `lang` with our own program for it, which serves descriptor 3 or, with `validate`,
/// answers one request on stdin. Returns only when that is not possible, after the reason was said the way in which the
/// caller expects an answer; the exit code of the process.
int host_script_main(const char *lang, bool validate);
