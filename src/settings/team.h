#pragma once

#include "base/err.h"
#include "config/config.h"
#include "config/home.h"
#include "store/store.h"

// Which store the settings ask for: [store].

struct team {
    struct store_team store; // its strings are below
    char *url, *hub;
    bool shared; // in PostgreSQL; else in files, and there is no url
};

/// Read [store] and the secret that it names. ERR_NOT_FOUND when there is no such secret, ERR_INVALID when
/// both `url` and `url_secret` are set, or when a file that was left out of `c` may have set one of them. `c` must stay
/// as long as `t`. Blocks.
int team_read(struct team *t, const struct config *c, const struct home *home, const char *version,
              struct err *e) MUST_CHECK;
/// Free it. Zeroed memory is allowed.
void team_fini(struct team *t);
