// The operations' context: what they share.

#include <assert.h>

#include "api/plugin_int.h"
#include "loop/work.h"

static void on_settings(void *arg)
{
    struct api *api = arg;
    if (api->plugins != NULL) {
        plugins_switch(api->plugins, api__plugins_on(api));
    }
}

struct api *api_new(const struct api_opts *o)
{
    struct api *api = xcalloc(1, sizeof *api);
    assert(o->hub->config->now != NULL && o->trust != NULL && o->host.stop != NULL);
    api->o = *o;
    api->files = lane_open(o->hub->loop, "plugin-files", 1);
    api->started_ms = loop_now(o->hub->loop);
    config_listen(o->hub->config, on_settings, api);
    return api;
}

void api_stop(struct api *api)
{
    assert(api->files != NULL && api->engine == NULL); // stopped once, after the engine
    lane_close(api->files);
    api->files = NULL;
    api__end_validations(api);
    api__end_asking(api);
    api__ui_stop(api);
    api__files_stop(api);
}

void api_free(struct api *api)
{
    if (api != NULL) {
        config_unlisten(api->o.hub->config, on_settings, api);
        vec_fini(&api->validations);
        api__free_shells(api->shells);
        api__front_free(api);
        api__ui_free(api);
        api__files_free(api);
    }
    free(api);
}

void api_set_engine(struct api *api, struct gen_engine *engine)
{
    assert((api->engine == NULL) != (engine == NULL)); // once, and taken back once
    api->engine = engine;
}

struct gen_engine *api_engine(const struct api *api)
{
    return api->engine;
}

void api_set_plugins(struct api *api, struct plugins *plugins, struct improvements *improvements)
{
    api->plugins = plugins;
    api->improvements = improvements;
}

void api_set_agent(struct api *api, struct agent *agent, struct providers *providers)
{
    api->agent = agent;
    api->providers = providers;
    if (agent != NULL) {
        api__ui_give(api, agent);
    }
}

void api_set_mcp(struct api *api, struct mcp *mcp)
{
    api->mcp = mcp;
}

void api_set_bots(struct api *api, struct bots *bots, struct fleet *fleet)
{
    api->bots = bots;
    api->fleet = fleet;
}

int64_t api_generation(const struct api *api)
{
    struct gen *g = api->engine != NULL ? gen_current(api->engine) : NULL;
    return g != NULL ? (int64_t)gen_number(g) : 0;
}

double api_uptime_s(const struct api *api)
{
    return (double)(loop_now(api->o.hub->loop) - api->started_ms) / 1000;
}
