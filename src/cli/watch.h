#pragma once

#include "cli/cli_int.h"

/// Print one event, whose `data` is JSON, or leave it out. Borrowed for the call.
typedef void watch_event_fn(struct cli *c, struct str data, void *arg);

struct watch_opts {
    const char *types, *session; // filters; NULL: none
    const char *after;           // begin after this id; NULL: with what comes
    watch_event_fn *print;       // NULL: as `afloat events` does
    void *arg;
};

/// Print events as they come until Ctrl-C; survives restarts of the hub. Returns the exit code.
int watch__follow(struct cli *c, const struct watch_opts *o);
