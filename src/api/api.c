// The operations' context: what they share, and what was chosen by command before this start.

#include "api/api_int.h"
#include "gen/engine.h"
#include "store/store.h"

struct api *api_new(struct loop *l, const char *version, const struct home *home,
                    struct store *store, struct event_log *events, const struct api_host *host)
{
    struct api *api = xcalloc(1, sizeof *api);
    api->loop = l;
    api->version = version;
    api->home = home;
    api->store = store;
    api->events = events;
    api->host = *host;
    api->started_ms = loop_now(l);
    return api;
}

void api_free(struct api *api)
{
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

void api_set_config(struct api *api, const struct config *config, const struct config_diags *diags)
{
    api->config = config;
    api->diags = diags;
}

static void on_choices(void *arg, int status, struct str text, const struct err *e)
{
    struct api *api = arg;
    struct arena a;
    struct json *choices = NULL;
    struct err own = {0};
    arena_init(&a);
    if (status == 0 && text.n != 0) {
        status = json_parse(&choices, &a, text, NULL, &own);
        e = &own;
    }
    if (status == 0) {
        api__read_features(api, choices);
    }
    api->choices_done(api->choices_arg, status, status < 0 ? e : NULL);
    arena_fini(&a);
}

void api_load_choices(struct api *api, void (*done)(void *arg, int status, const struct err *e),
                      void *arg)
{
    api->choices_done = done;
    api->choices_arg = arg;
    store_doc_get(api->store, STR("choices.json"), on_choices, api);
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
