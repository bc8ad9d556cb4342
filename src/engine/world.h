#pragma once

#include "agent/engine.h"
#include "base/vec.h"
#include "loop/loop.h"
#include "loop/work.h"

// What engines share: the loop, a lane for files, and the way to providers.

struct http_client;

struct engine_world {
    struct loop *loop;
    struct http_client *http;
    const char *version; // of Afloat
    const char *socket;  // the hub's own
    struct lane *lane;
    vec(char *) checked; // programs that have what we need of them
};

/// Everything is borrowed until it is closed.
struct engine_world *engine_world_open(struct loop *l, struct http_client *http,
                                       const char *version, const char *socket);
/// All threads are closed, and no process of theirs is left. Frees it.
void engine_world_close(struct engine_world *w);

/// The kinds there are, NULL at the end.
extern const struct engine_kind *const engine_kinds[];
extern const struct engine_kind engine_codex, engine_claude, engine_acp;
