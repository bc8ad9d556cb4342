#pragma once

#include "base/str.h"
#include "loop/loop.h"

// Telling the hub, if one runs, without ever waiting for it: what a shell says about its environment.

struct announce;

/// `socket` (copied) is the hub's. Never NULL. Loop thread.
struct announce *announce_open(struct loop *l, const char *socket);

/// Send `body`, a JSON object, to POST `path` in the background; in the order of the calls. Without a
/// hub it is dropped, but the last one is kept and sent to a hub that starts later, within 5 s.
void announce_send(struct announce *a, const char *path, struct str body);

/// Forget what was not sent. Memory goes when what is under way is over, 2 s at most.
void announce_close(struct announce *a); // NULL is allowed
