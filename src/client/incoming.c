// Reading the hub's answer, for blocking and asynchronous requests and for the bridge.
//
//     bytes ──> http1 ──┬─> answer->body
//                       └─> sse ──> callback, event by event

#include "client/incoming.h"

#include <errno.h>
#include <strings.h>

static int on_event(void *arg, const struct sse_event *ev)
{
    struct incoming *in = arg;
    struct client_event out = {.id = ev->id, .type = ev->event, .data = ev->data};
    return in->cb(&out, in->arg);
}

static int on_body(void *arg, struct str bytes)
{
    struct incoming *in = arg;
    if (in->streaming) {
        in->stopped = sse_feed(&in->sse, bytes, in->e);
        return in->stopped;
    }
    buf_adds(&in->answer->body, bytes);
    if (!buf_ok(&in->answer->body)) {
        in->stopped = err_set(in->e, ERR_TOO_LARGE, "the answer is larger than %d MiB",
                              CLIENT_BODY_MAX >> 20);
    }
    return in->stopped;
}

static void copy_header(char *out, size_t size, struct str value)
{
    struct str first = str_trim(str_cut(&value, ';'));
    snprintf(out, size, STR_FMT, STR_ARG(first));
}

static void on_head(struct incoming *in)
{
    struct client_answer *a = in->answer;
    a->status = in->http.status;
    copy_header(a->type, sizeof a->type, http1_get(&in->http, "Content-Type"));
    copy_header(a->build, sizeof a->build, http1_get(&in->http, "Afloat-Build"));
    in->streaming =
        in->cb != NULL && a->status / 100 == 2 && strcasecmp(a->type, "text/event-stream") == 0;
}

void incoming_init(struct incoming *in, const char *method, struct client_answer *answer,
                   client_event_cb *cb, void *arg, struct err *e)
{
    *in = (struct incoming){.answer = answer, .cb = cb, .arg = arg, .e = e};
    http1_init(&in->http, HTTP1_RESPONSE, NULL, on_body, in);
    http1_next(&in->http, strcmp(method, "HEAD") == 0);
    sse_init(&in->sse, CLIENT_EVENT_MAX, on_event, in);
}

void incoming_fini(struct incoming *in)
{
    sse_fini(&in->sse);
    http1_fini(&in->http);
}

int incoming_take(struct incoming *in, struct str bytes)
{
    while (bytes.n != 0) {
        enum http1_state before = in->http.state;
        int rc = http1_feed(&in->http, &bytes, in->e);
        if (rc < 0) {
            return in->stopped != 0 ? in->stopped : err_prefix(in->e, "the hub's answer");
        }
        if (in->http.state == HTTP1_END && in->http.status / 100 == 1) {
            http1_next(&in->http, false); // an interim answer
            continue;
        }
        if (before == HTTP1_HEAD && in->http.state != HTTP1_HEAD) {
            on_head(in);
        }
        if (in->http.state == HTTP1_END) {
            return 1;
        }
    }
    return 0;
}

int incoming_end(struct incoming *in)
{
    if (http1_between(&in->http)) {
        return err_set(in->e, -ECONNRESET, "the hub closed the connection without an answer");
    }
    return http1_finish(&in->http, NULL) < 0
               ? err_set(in->e, -ECONNRESET, "lost the connection to the hub during its answer")
               : 1;
}

int incoming_late(struct incoming *in)
{
    return in->streaming ? err_set(in->e, -ETIMEDOUT, "the hub has fallen silent")
                         : err_set(in->e, ERR_TIMEOUT, "the hub did not answer in time");
}
