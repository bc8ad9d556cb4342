#pragma once

#include <sys/types.h>

#include "base/arena.h"
#include "config/home.h"

enum { START_WAIT_MS = 5000 };

struct start_result {
    bool already; // it was there before we came
};

/// Make sure that this home's hub runs and listens, starting one in the background when there is
/// none. Of several callers at once one starts it, the others wait for it. Returns 0,
/// ERR_UNREACHABLE with the hub's last words when it does not come up within START_WAIT_MS, or
/// -EINTR.
int start_hub(const struct home *h, struct start_result *out, struct err *e) MUST_CHECK;

/// What the last hub had to say before it went: the last line of its output, else the last error of its
/// own in the log, else the last line there. Caller frees; NULL when there is nothing.
char *start_last_words(const struct home *h);
/// The last line of level error near the end of the hub's log. Caller frees; NULL without one.
char *start_last_error(const struct home *h);

/// The variables a background hub gets: where things are and how to talk, nothing of the client's
/// session; home and runtime directory as they are in `h`. Strings are borrowed from `env` or lie,
/// like the array, in `a`.
char **start_environment(const struct home *h, char *const *env, struct arena *a);
