// Model providers and engines: which there are, and what they offer.
//
// Keys are the client's: the hub's own environment decides nothing. Who lists providers names the
// variables that he has (not their values), and models are asked for with the key of a session.

#include "agent/agent.h"
#include "agent/providers.h"
#include "api/handlers.h"
#include "api/session_int.h"

/// "A,B" as an environment in which both are set.
static const char *const *fake_env(struct op_call *c)
{
    struct str rest = json_get_text(c->params, "keys");
    const char **list = arena_calloc(c->arena, rest.n + 2, sizeof *list);
    for (size_t n = 0; rest.n != 0;) {
        struct str name = str_trim(str_cut(&rest, ','));
        if (name.n != 0) {
            list[n++] = arena_printf(c->arena, STR_FMT "=set", STR_ARG(name));
        }
    }
    return list;
}

static void on_engines(void *arg, const struct agent_engine *engines, size_t n)
{
    struct op_call *c = arg;
    struct api *api = c->api;
    struct provider_wish wish = {
        .env = fake_env(c), .home = api->o.hub->home, .service = api->providers};
    struct jw *w = op_begin_obj(c);
    jw_key(w, "providers");
    providers_write_list(w, api->o.hub->config->now, &wish);
    jw_karr(w, "engines");
    for (size_t i = 0; i < n; i++) {
        jw_obj(w);
        jw_kstrz(w, "name", engines[i].name);
        jw_kstrz(w, "kind", engines[i].kind);
        jw_kbool(w, "installed", engines[i].program != NULL);
        jw_kstrz(w, "version", engines[i].version);
        jw_kstrz(w, "program", engines[i].program);
        jw_kstrz(w, "install", engines[i].install);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_kstrz(w, "next", NULL);
    op_end_obj(c, 200);
}

void op_PROVIDER_LIST(struct api *api, struct op_call *c)
{
    if (api->agent != NULL) {
        agent_engines(api->agent, json_get_text(c->params, "path"), on_engines, c);
    } else {
        on_engines(c, NULL, 0); // the hub starts or stops
    }
}

struct asking {
    struct api *api; // the call is gone once it is answered
    struct op_call *call;
    struct provider_choice choice;
    struct provider_models *models;
};

static void asking_end(struct asking *q)
{
    vec_drop(&q->api->asking, q);
    provider_choice_fini(&q->choice);
    free(q);
}

void api__end_asking(struct api *api)
{
    while (api->asking.n != 0) {
        struct asking *q = api->asking.p[0];
        provider_models_cancel(q->models);
        op_fail(q->call, PROBLEM_STOPPING, NULL, "the hub is stopping");
        asking_end(q);
    }
    vec_fini(&api->asking);
}

static void on_models(const char *const *names, size_t n, const struct provider_error *why,
                      void *arg)
{
    struct asking *q = arg;
    if (why != NULL) {
        op_fail(q->call, PROBLEM_PROVIDER_FAILED, NULL, "%s", why->message);
    } else {
        struct jw *w = op_begin_obj(q->call);
        jw_kstrs(w, "models", names, n);
        jw_kstrz(w, "next", NULL);
        op_end_obj(q->call, 200);
    }
    asking_end(q);
}

static void ask_models(struct api *api, struct op_call *c, const char *const *env)
{
    struct asking *q = xcalloc(1, sizeof *q);
    struct err e = {0};
    const char *name = arena_strdup(c->arena, json_get_text(c->params, "name"));
    struct provider_wish wish = {.provider = name,
                                 .any_model = true, // the list needs no chosen model
                                 .env = env,
                                 .home = api->o.hub->home,
                                 .service = api->providers};
    q->api = api;
    q->call = c;
    if (api->providers == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub starts or stops");
        free(q);
    } else if (providers_resolve(&q->choice, api->o.hub->config->now, &wish, &e) < 0) {
        op_fail(c, PROBLEM_NOT_FOUND, NULL, "%s", e.msg);
        free(q);
    } else {
        vec_push(&api->asking, q);
        q->models = provider_models_get(api->providers, &q->choice, on_models, q);
    }
}

static void of_session(struct op_call *c, struct session *s)
{
    ask_models(c->api, c, agent_session_variables(s));
}

void op_PROVIDER_MODELS(struct api *api, struct op_call *c)
{
    const struct json *id = json_get(c->params, "session");
    if (id == NULL) {
        ask_models(api, c, NULL);
    } else {
        api__with_session(c, json_str(id, ""), false, of_session);
    }
}
