// POST /v1/responses: one answer of a model.
//
//     body ─> which provider? ─> neutral request ─> provider_start ─┬ deltas ─> events ─> the client
//                                                                   └ the whole answer ─> one JSON object
//
// A stream's head waits for the first piece or the failure of the provider, HEAD_MS at most: a refusal is an HTTP
// status then, as clients of this API expect it. The provider's own retries end with the first piece, because what
// was sent cannot be taken back; after it a failure is the event response.failed.

#include "base/log.h"
#include "base/random.h"
#include "modelserver/model_int.h"

enum { HEAD_MS = 2000 };

struct answer {
    struct model_call *c;
    struct provider_choice choice;
    struct responses_request asked;
    struct responses_writer writer;
    struct provider_call *call; // NULL: over
    struct timer head;
    struct loop_task *flush; // events wait in `out`
    struct buf out;
    bool streaming; // the head is sent
};

static void answer_free(struct answer *x)
{
    timer_stop(&x->head);
    if (x->flush != NULL) {
        loop_cancel(x->c->server->o.loop, x->flush);
    }
    if (x->call != NULL) {
        provider_cancel(x->call);
    }
    provider_choice_fini(&x->choice);
    responses_fini(&x->writer);
    buf_fini(&x->out);
    free(x);
}

static void on_stop(struct model_call *c)
{
    answer_free(c->work);
}

// ---- sending ------------------------------------------------------------------------------------

static void send_now(struct answer *x)
{
    if (x->out.n != 0) {
        mount_send(x->c->m, buf_str(&x->out));
        buf_clear(&x->out);
    }
}

static void on_flush(void *arg)
{
    struct answer *x = arg;
    x->flush = NULL;
    send_now(x);
}

static void begin_stream(struct answer *x)
{
    if (x->asked.stream && !x->streaming) {
        x->streaming = true;
        timer_stop(&x->head);
        mount_stream(x->c->m, NULL);
    }
}

static void on_head(void *arg)
{
    struct answer *x = arg;
    begin_stream(x);
    send_now(x);
}

/// The stream is complete: end it and free the call.
static void finish(struct answer *x)
{
    struct model_call *c = x->c;
    send_now(x);
    mount_end(c->m);
    answer_free(x);
    model_call__free(c);
}

// ---- what the provider says -----------------------------------------------------------------------

static void on_delta(struct provider_call *call, const struct provider_delta *d, void *arg)
{
    struct answer *x = arg;
    (void)call;
    begin_stream(x);
    responses_delta(&x->writer, d);
    if (x->flush == NULL && x->out.n != 0) { // pieces of one turn of the loop leave together
        x->flush = loop_defer(x->c->server->o.loop, on_flush, x);
    }
}

static void on_done(struct provider_call *call, const struct provider_response *r, void *arg)
{
    struct answer *x = arg;
    (void)call;
    x->call = NULL;
    begin_stream(x);
    responses_done(&x->writer, r);
    if (x->streaming) {
        finish(x);
        return;
    }
    const char *incomplete = responses_incomplete(r->stop_reason);
    struct model_call *c = x->c;
    struct buf body = {.max = SIZE_MAX};
    struct jw w = {.out = &body};
    responses_write_object(&x->writer, &w, incomplete != NULL ? "incomplete" : "completed",
                           &r->usage, incomplete, NULL);
    answer_free(x);
    model_call__reply(c, 200, buf_str(&body));
    buf_fini(&body);
}

static void on_fail(struct provider_call *call, const struct provider_error *why, void *arg)
{
    struct answer *x = arg;
    struct model_call *c = x->c;
    (void)call;
    x->call = NULL;
    if (x->streaming) {
        responses_fail(&x->writer, why);
        finish(x);
        return;
    }
    struct responses_error e = responses_error_of(why);
    answer_free(x);
    model_call__refuse(c, e.status, e.type, NULL, e.code, "%s", why->message);
}

// ---- beginning ------------------------------------------------------------------------------------

/// The model that the client names; of a session that it works for, the session's provider unless it names another.
static int choose(struct answer *x, struct str model, struct err *e)
{
    struct model_call *c = x->c;
    const struct config *config = c->server->o.config->now;
    const char *name = arena_strdup(&c->arena, model);
    struct provider_wish wish = {.model = name,
                                 .env = c->variables,
                                 .cwd = c->cwd,
                                 .home = c->server->o.home,
                                 .service = c->server->o.providers};
    if (c->session_model != NULL) {
        struct str own = str_of(c->session_model), provider = str_cut(&own, '/');
        struct str rest = model, prefix = str_cut(&rest, '/');
        bool named = prefix.n != model.n && providers_has(wish.service, config, prefix, c->cwd);
        wish.model = model.n != 0 ? name : c->session_model;
        wish.provider = !named && model.n != 0 ? arena_strdup(&c->arena, provider) : NULL;
    }
    int rc = providers_resolve(&x->choice, config, &wish, e);
    if (rc == 0 && x->choice.fallback && !str_eqz(model, "scripted")) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no model '%s': no provider is configured; name one as "
                       "PROVIDER/MODEL, GET /v1/models lists them",
                       name);
    }
    return rc;
}

/// Variables with keys belong to clients with an environment. Without one the remedy for a missing key is another.
static void refuse_choice(struct answer *x, const struct err *e)
{
    struct model_call *c = x->c;
    struct str rest = str_of(e->msg), what = str_cut(&rest, ':');
    bool key = str_starts(what, "no key") && c->variables == NULL;
    answer_free(x);
    model_call__refuse(c, 404, "invalid_request_error", "model", "model_not_found", STR_FMT "%s",
                       STR_ARG(key ? what : str_of(e->msg)),
                       key ? ": set api_key_secret or api_key_file for it, or name a session "
                             "that has one with the header Afloat-Session"
                           : "");
}

static void start(struct answer *x, struct str model)
{
    static const struct provider_cb callbacks = {
        .on_delta = on_delta, .on_done = on_done, .on_fail = on_fail};
    struct model_call *c = x->c;
    struct provider_ask ask = {.choice = &x->choice, .request = x->asked.request, .n = x->asked.n};
    struct err e = {0};
    char random[33];
    random_hex(random, sizeof random);
    x->writer.id = arena_printf(&c->arena, "resp_%s", random);
    x->writer.model = arena_strdup(&c->arena, model.n != 0 ? model : str_of(x->choice.model));
    x->writer.tools = x->asked.tools;
    x->writer.body = c->body;
    x->writer.created_s = loop_wall(c->server->o.loop) / 1000;
    x->writer.out = x->asked.stream ? &x->out : NULL;
    responses_begin(&x->writer);
    if (provider_start(&x->call, c->server->o.providers, &ask, &callbacks, x, &e) < 0) {
        answer_free(x);
        model_call__refuse(c, 400, "invalid_request_error", NULL, "invalid_prompt", "%s", e.msg);
    } else if (x->asked.stream) {
        timer_start(&x->head, HEAD_MS);
    }
}

void responses__run(struct model_call *c)
{
    struct answer *x = xcalloc(1, sizeof *x);
    const struct json *model = json_get(c->body, "model");
    const char *param = NULL;
    struct err e = {0};
    x->c = c;
    c->work = x;
    c->stop = on_stop;
    buf_init(&x->out, SIZE_MAX);
    timer_init(&x->head, c->server->o.loop, on_head, x);
    if (json_str(model, "").n == 0 && c->session_model == NULL) {
        answer_free(x);
        model_call__refuse(c, 400, "invalid_request_error", "model", "missing_required_parameter",
                           "'model' must name a model, as PROVIDER/MODEL or MODEL");
    } else if (choose(x, json_str(model, ""), &e) < 0) {
        refuse_choice(x, &e);
    } else if (responses_read(&x->asked, &c->arena, c->body, x->choice.kind, &param, &e) < 0) {
        answer_free(x);
        model_call__refuse(c, 400, "invalid_request_error", param, "invalid_value", "%s", e.msg);
    } else {
        start(x, json_str(model, ""));
    }
}
