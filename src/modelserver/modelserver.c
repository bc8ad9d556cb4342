// The model server's life, and what its two paths share: method, body, and the session whose keys are used.
//
// Host, Origin and token were checked by the server. A request may name a session (header Afloat-Session): then its
// keys, provider and model are used, so that a program that works for a session asks what the session would ask.
// Without one there is no client's environment, and keys come from secrets and files alone.
//
// Invariant: a call is in the list from its request to model_call__free(); `m` is NULL once the peer is gone.

#include "modelserver/modelserver.h"

#include <stdarg.h>

#include "base/list.h"
#include "modelserver/model_int.h"

// ---- calls --------------------------------------------------------------------------------------

static void unlink_call(struct model_call *c)
{
    list_remove(&c->server->calls, c);
    c->server = NULL;
}

void model_call__free(struct model_call *c)
{
    if (c->server != NULL) {
        unlink_call(c);
    }
    arena_fini(&c->arena);
    free(c);
}

void model_call__reply(struct model_call *c, int status, struct str body)
{
    if (c->m != NULL) {
        mount_reply(c->m, status, "application/json", NULL, body);
    }
    model_call__free(c);
}

void model_call__refuse(struct model_call *c, int status, const char *type, const char *param,
                        const char *code, const char *fmt, ...)
{
    va_list args;
    char text[600];
    struct buf body = {.max = SIZE_MAX};
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    responses_write_error(&body, str_of(text), type, param, code);
    model_call__reply(c, status, buf_str(&body));
    buf_fini(&body);
}

static struct model_call *call_new(struct modelserver *s, struct mount_call *m,
                                   void (*run)(struct model_call *c))
{
    struct model_call *c = xcalloc(1, sizeof *c);
    *c = (struct model_call){.server = s, .m = m, .run = run};
    list_add(&s->calls, c);
    mount_set_data(m, c);
    return c;
}

static void drop(struct model_call *c)
{
    if (c->looking) {
        c->m = NULL; // on_session() frees it
        return;
    }
    if (c->stop != NULL) {
        c->stop(c);
    }
    model_call__free(c);
}

// ---- sessions -----------------------------------------------------------------------------------

static void on_session(void *arg, struct session *s, const struct agent_no *no)
{
    struct model_call *c = arg;
    c->looking = false;
    if (c->m == NULL) {
        model_call__free(c);
    } else if (s == NULL) {
        model_call__refuse(c, 404, "invalid_request_error", NULL, "session_not_found", "%s",
                           no->detail);
    } else {
        c->variables = agent_session_variables(s);
        c->session_model =
            arena_printf(&c->arena, "%s/%s", agent_session_provider(s), agent_session_model(s));
        c->cwd = arena_strdup(&c->arena, str_of(agent_session_dir(s)));
        c->run(c);
    }
}

static void find_session(struct model_call *c)
{
    struct str id = mount_header(c->m, "afloat-session");
    if (id.n == 0) {
        c->run(c);
        return;
    }
    c->looking = true;
    agent_session_get(c->server->o.agent, arena_str(&c->arena, id), on_session, c);
}

// ---- requests -----------------------------------------------------------------------------------

static void refuse_method(struct model_call *c, const char *allow)
{
    struct buf body = {.max = SIZE_MAX};
    responses_write_error(&body, STR("this method is not allowed for this address"),
                          "invalid_request_error", NULL, "method_not_allowed");
    mount_reply(c->m, 405, "application/json",
                strcmp(allow, "POST") == 0 ? "Allow: POST\r\n" : "Allow: GET\r\n", buf_str(&body));
    buf_fini(&body);
    model_call__free(c);
}

static void on_responses(void *arg, struct mount_call *m)
{
    static const struct json_opts opts = {.dup = JSON_DUP_LAST};
    struct model_call *c = call_new(arg, m, responses__run);
    struct json *body = NULL;
    struct err e = {0};
    if (strcmp(mount_method(m), "POST") != 0) {
        refuse_method(c, "POST");
        return;
    }
    // copied: the connection's buffer goes when the answer begins
    if (json_parse(&body, &c->arena, arena_str(&c->arena, mount_body(m)), &opts, &e) != 0 ||
        body->type != JSON_OBJ) {
        model_call__refuse(c, 400, "invalid_request_error", NULL, "invalid_json",
                           "the body must be a JSON object%s%s", e.msg[0] != '\0' ? ": " : "",
                           e.msg);
        return;
    }
    c->body = body;
    find_session(c);
}

static void on_models(void *arg, struct mount_call *m)
{
    struct model_call *c = call_new(arg, m, models__run);
    if (strcmp(mount_method(m), "GET") != 0) {
        refuse_method(c, "GET");
    } else {
        find_session(c);
    }
}

static void on_gone(void *arg, struct mount_call *m)
{
    struct model_call *c = mount_data(m);
    (void)arg;
    if (c != NULL) {
        drop(c);
    }
}

static void write_refusal(struct buf *out, const char *code, const char *detail)
{
    responses_write_error(out, str_of(detail),
                          strcmp(code, "UNAUTHORIZED") == 0 ? "authentication_error"
                                                            : "invalid_request_error",
                          NULL, code);
}

// ---- life ---------------------------------------------------------------------------------------

struct modelserver *modelserver_open(const struct modelserver_opts *o, struct server *server)
{
    struct modelserver *s = xcalloc(1, sizeof *s);
    s->o = *o;
    s->responses = (struct server_mount){.path = "/v1/responses",
                                         .request = on_responses,
                                         .gone = on_gone,
                                         .refused = write_refusal,
                                         .arg = s};
    s->models = s->responses;
    s->models.path = "/v1/models";
    s->models.request = on_models;
    server_mount(server, &s->responses);
    server_mount(server, &s->models);
    return s;
}

void modelserver_close(struct modelserver *s)
{
    if (s == NULL) {
        return;
    }
    while (s->calls != NULL) {
        struct model_call *c = s->calls;
        if (c->looking) { // on_session() still comes, and frees it
            c->m = NULL;
            unlink_call(c);
        } else {
            drop(c);
        }
    }
    free(s);
}
