#pragma once

#include "config/home.h"

// One hub per home and per runtime directory.

struct instance {
    int home_fd;    // holds the lock on home/hub.lock
    int runtime_fd; // holds the lock on runtime/hub.pid
};

/// The second line of hub.lock while a command such as `fsck` keeps hubs out of the home. A hub writes its pid alone.
#define INSTANCE_TOOL "tool"

/// Become the hub of this home, or fail with ERR_CONFLICT naming the process that is. The locks end with
/// the process, so a killed hub never blocks the next one.
int instance_take(struct instance *in, const struct home *h, struct err *e) MUST_CHECK;

/// The runtime directory was emptied or made anew under us: lock and announce there again. Nothing
/// happens while the file we locked is still in place.
int instance_renew(struct instance *in, const struct home *h, struct err *e) MUST_CHECK;

/// Write our pid where clients look for it; after that clients may connect.
int instance_announce(struct instance *in, struct err *e) MUST_CHECK;

/// Remove the pid file and give the locks back.
void instance_release(struct instance *in, const struct home *h);
