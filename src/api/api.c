// The operations' context: what they share.

#include "api/plugin_int.h"
#include "loop/work.h"

struct api *api_new(struct loop *l, const char *version, const struct home *home,
                    struct store *store, struct choices *choices, struct event_log *events,
                    const struct api_host *host)
{
    struct api *api = xcalloc(1, sizeof *api);
    api->loop = l;
    api->version = version;
    api->home = home;
    api->store = store;
    api->choices = choices;
    api->events = events;
    api->host = *host;
    api->files = lane_open(l, "plugin-files", 1);
    api->started_ms = loop_now(l);
    return api;
}

void api_stop(struct api *api)
{
    lane_close(api->files);
    api->files = NULL;
    api__end_validations(api);
    api__end_asking(api);
}

void api_free(struct api *api)
{
    if (api != NULL) {
        vec_fini(&api->validations);
        api__free_shells(api->shells);
    }
    free(api);
}

void api_set_engine(struct api *api, struct gen_engine *engine)
{
    api->engine = engine;
}

void api_set_trust(struct api *api, struct trust_hub *trust)
{
    api->trust = trust;
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
}

void api_set_bots(struct api *api, struct bots *bots)
{
    api->bots = bots;
}

void api_set_config(struct api *api, const struct config *config, const struct config_diags *diags)
{
    api->config = config;
    api->diags = diags;
    if (api->plugins != NULL) {
        plugins_switch(api->plugins, api__plugins_on(api));
    }
}

int64_t api_generation(const struct api *api)
{
    struct gen *g = api->engine != NULL ? gen_current(api->engine) : NULL;
    return g != NULL ? (int64_t)gen_number(g) : 0;
}

double api_uptime_s(const struct api *api)
{
    return (double)(loop_now(api->loop) - api->started_ms) / 1000;
}
