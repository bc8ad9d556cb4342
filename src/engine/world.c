// The engines there are, and what they share.

#include "engine/world.h"

#include "engine/child.h"

const struct engine_kind *const engine_kinds[] = {&engine_codex, &engine_claude, &engine_acp, NULL};

struct engine_world *engine_world_open(struct loop *l, struct http_client *http,
                                       const char *version, const char *socket)
{
    struct engine_world *w = xcalloc(1, sizeof *w);
    *w = (struct engine_world){.loop = l,
                               .http = http,
                               .version = version,
                               .socket = socket,
                               .lane = lane_open(l, "engines", 2)};
    return w;
}

void engine_world_close(struct engine_world *w)
{
    lane_close(w->lane);
    vec_fini_each(&w->checked, free);
    free(w);
}
