// GET models: what a provider offers.
//
// Both families of APIs answer {"data": [{"id": "..."}, ...]}. A user waits for the list, so it is one request
// without retries and with a short time-out.

#include <assert.h>

#include "agent/provider_int.h"

enum { TIMEOUT_MS = 15 * 1000, MODELS_MAX = 10000 };

struct provider_models {
    struct providers *service;
    const struct provider_choice *choice; // borrowed
    provider_models_cb *cb;
    void *arg;
    struct http_call *http; // NULL: none, and `task` answers
    struct loop_task *task;
    struct err e; // of a request that could not be sent
};

static void answer(struct provider_models *m, const char *const *names, size_t n,
                   const struct provider_error *why)
{
    provider_models_cb *cb = m->cb;
    void *arg = m->arg;
    assert(m->service->n_calls != 0);
    m->service->n_calls--;
    free(m);
    cb(names, n, why, arg);
}

static void read_list(struct provider_models *m, struct str body)
{
    static const struct json_opts opts = {.dup = JSON_DUP_LAST};
    struct provider_error why;
    struct json *v = NULL;
    struct arena a = {0};
    int rc = json_parse(&v, &a, body, &opts, NULL);
    const struct json *data = json_get(rc == 0 ? v : NULL, "data");
    if (data != NULL && data->type == JSON_ARR) {
        const char **names = arena_calloc(&a, data->n + 1, sizeof *names);
        size_t n = 0;
        json_foreach_item (row, data) {
            struct str id = json_get_text(row, "id");
            if (id.n != 0 && n < MODELS_MAX) {
                names[n++] = arena_strdup(&a, id);
            }
        }
        str_sort(names, n);
        answer(m, names, n, NULL);
    } else {
        provider__fault(&why, PROVIDER_REJECTED, m->choice->provider,
                        "answered with something that is no list of models");
        answer(m, NULL, 0, &why);
    }
    arena_fini(&a);
}

static void on_done(struct http_call *http, int rc, const struct http_reply *reply,
                    const struct err *e, void *arg)
{
    struct provider_models *m = arg;
    struct provider_error why;
    (void)http;
    if (rc != 0) {
        provider__judge_rc(&why, m->choice->provider, reply->status != 0, e);
    } else if (reply->status != 200) {
        provider__judge_body(&why, m->choice->provider, reply->status, reply->body);
    } else {
        read_list(m, reply->body);
        return;
    }
    answer(m, NULL, 0, &why);
}

static void tell_at_once(void *arg)
{
    struct provider_models *m = arg;
    const char *const *names = (const char *const *)&m->choice->model;
    const struct provider_choice *ch = m->choice;
    struct gen_item *it = provider__offer(m->service, str_of(ch->provider), ch->dir);
    struct provider_error why;
    if (m->e.code == 0 && ch->impl->wire == &wire_plugin) {
        const char **models = NULL;
        struct arena a = {0};
        size_t n = it != NULL ? provider__offer_models(it, &a, &models) : 0;
        answer(m, models, n, NULL);
        arena_fini(&a);
    } else if (m->e.code == 0) {
        answer(m, names, 1, NULL); // scripted: the one it has
    } else {
        provider__judge_rc(&why, m->choice->provider, false, &m->e);
        answer(m, NULL, 0, &why);
    }
}

struct provider_models *provider_models_get(struct providers *s,
                                            const struct provider_choice *choice,
                                            provider_models_cb *cb, void *arg)
{
    static const struct http_cb callbacks = {.on_done = on_done};
    struct provider_models *m = xcalloc(1, sizeof *m);
    *m = (struct provider_models){.service = s, .choice = choice, .cb = cb, .arg = arg};
    s->n_calls++;
    int rc = ERR_UNSUPPORTED;
    if (choice->impl->models_path != NULL) {
        struct http_header headers[PROVIDER_HEADERS_MAX];
        struct http_request q;
        struct arena a = {0};
        provider__http_request(&q, headers, &a, choice, choice->impl->models_path, choice->key);
        q.timeout_ms = TIMEOUT_MS;
        rc = http_client_send(&m->http, s->client, &q, &callbacks, m, &m->e);
        arena_fini(&a);
    }
    if (rc != 0) {
        m->task = loop_defer(s->loop, tell_at_once, m);
    }
    return m;
}

void provider_models_cancel(struct provider_models *m)
{
    if (m->http != NULL) {
        http_client_cancel(m->http);
    } else {
        loop_cancel(m->service->loop, m->task);
    }
    assert(m->service->n_calls != 0);
    m->service->n_calls--;
    free(m);
}
