// GET /v1/models: the models of every provider whose key is known, as PROVIDER/MODEL.
//
// Providers are asked at the same time. One that fails is left out and logged: a list without it is worth more than
// none.

#include <assert.h>

#include "base/log.h"
#include "modelserver/model_int.h"

struct asked_provider {
    struct listing *listing;
    struct provider_choice choice;
    struct provider_models *models; // NULL: answered
    const char **names;             // in the call's arena
    size_t n;
};

struct listing {
    struct model_call *c;
    struct asked_provider *providers;
    size_t n, open;
};

static void listing_free(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->providers[i].models != NULL) {
            provider_models_cancel(l->providers[i].models);
        }
        provider_choice_fini(&l->providers[i].choice);
    }
    free(l);
}

static void on_stop(struct model_call *c)
{
    listing_free(c->work);
}

static void answer(struct listing *l)
{
    struct model_call *c = l->c;
    struct buf body = {.max = SIZE_MAX};
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kstrz(&w, "object", "list");
    jw_karr(&w, "data");
    for (size_t i = 0; i < l->n; i++) {
        for (size_t k = 0; k < l->providers[i].n; k++) {
            const char *provider = l->providers[i].choice.provider;
            jw_obj(&w);
            jw_key(&w, "id");
            jw_strf(&w, "%s/%s", provider, l->providers[i].names[k]);
            jw_kstrz(&w, "object", "model");
            jw_kint(&w, "created", 0);
            jw_kstrz(&w, "owned_by", provider);
            jw_end_obj(&w);
        }
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    listing_free(l);
    model_call__reply(c, 200, buf_str(&body));
    buf_fini(&body);
}

static void on_models(const char *const *names, size_t n, const struct provider_error *why,
                      void *arg)
{
    struct asked_provider *p = arg;
    struct listing *l = p->listing;
    struct arena *a = &l->c->arena;
    p->models = NULL;
    if (why != NULL) {
        log_warn(LOG_AGENT, "models provider=%s message=%s", p->choice.provider,
                 LOGQ(str_of(why->message)).z);
    }
    p->names = arena_calloc(a, n + 1, sizeof *p->names);
    for (size_t i = 0; i < n; i++) {
        p->names[p->n++] = arena_strdup(a, str_of(names[i]));
    }
    assert(l->open != 0);
    if (--l->open == 0) {
        answer(l);
    }
}

static void add(struct listing *l, const char *name)
{
    struct asked_provider *p = &l->providers[l->n];
    const struct modelserver_opts *o = &l->c->server->o;
    struct provider_wish wish = {.provider = name,
                                 .any_model = true,
                                 .env = l->c->variables,
                                 .cwd = l->c->cwd,
                                 .home = o->home,
                                 .service = o->providers};
    p->listing = l;
    l->n += providers_resolve(&p->choice, o->config->now, &wish, NULL) == 0;
}

void models__run(struct model_call *c)
{
    const struct config *config = c->server->o.config->now;
    struct listing *l = xcalloc(1, sizeof *l);
    struct provider_names names = providers_list(c->server->o.providers, config, c->cwd);
    l->c = c;
    l->providers = arena_calloc(&c->arena, names.n + 1, sizeof *l->providers);
    c->work = l;
    c->stop = on_stop;
    vec_foreach (name, &names) {
        add(l, *name);
    }
    vec_fini(&names);
    if (l->n == 0) {
        answer(l);
        return;
    }
    l->open = l->n; // answers come from the loop, never from inside
    for (size_t i = 0; i < l->n; i++) {
        struct asked_provider *p = &l->providers[i];
        p->models = provider_models_get(c->server->o.providers, &p->choice, on_models, p);
    }
}
