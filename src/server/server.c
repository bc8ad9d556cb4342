// The HTTP face's life: opening, its settings, its counters, and closing.
//
// Closing has steps. Listeners, idle connections and event streams close at once. Requests under way may finish
// until the grace period is over; then the rest is closed. When libuv has given back the last handle, the server
// is freed and `done` is called. The answer of an operation that comes later is dropped.

#include <assert.h>
#include <inttypes.h>
#include <sys/resource.h>

#include "server/server_int.h"

const struct server_limits server_default_limits = {
    .line_bytes = 8 * 1024,
    .header_bytes = 32 * 1024,
    .body_bytes = 16 * 1024 * 1024,
    .connections = 16384,
    .strangers = 1024,
    .ahead_bytes = 64 * 1024,
    .header_ms = 10 * 1000,
    .body_ms = 30 * 1000,
    .idle_ms = 75 * 1000,
    .write_ms = 30 * 1000,
    .heartbeat_ms = 15 * 1000,
};

static void finish_closing(void *arg)
{
    struct server *s = arg;
    void (*done)(void *) = s->done;
    void *done_arg = s->done_arg;
    assert(s->conns == NULL && s->open_handles == 0);
    for (struct call *r = s->calls; r != NULL; r = r->next) {
        assert(r->conn == NULL); // connections go first
        r->server = NULL;
    }
    hosts__fini(&s->hosts);
    door__fini(&s->door);
    auth__free(s->auth);
    router__fini(&s->router);
    idem__free(s->idem);
    buf_fini(&s->chunk);
    free(s->socket_path);
    free(s->version);
    free(s->start_dir);
    free(s->build);
    free(s);
    if (done != NULL) {
        done(done_arg);
    }
}

static void close_rest(void *arg)
{
    struct server *s = arg;
    for (struct conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        conn__close(c);
    }
}

struct server *server_open(struct loop *l, const struct server_opts *opts)
{
    struct server *s = xcalloc(1, sizeof *s);
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    s->loop = l;
    s->api = opts->api;
    s->events = opts->events;
    s->version = xstrdup(opts->version);
    s->build = opts->build != NULL ? xstrdup(opts->build) : NULL;
    s->page = opts->page;
    s->limits = opts->limits != NULL ? *opts->limits : server_default_limits;
    // divide the descriptors of the process, so that callers over TCP can use up neither those of the
    // owner on the Unix socket nor those that the hub needs to do what it is asked
    getrlimit(RLIMIT_NOFILE, &files);
    s->most[false] = MIN(s->limits.connections, files.rlim_cur / 8 * 2);
    s->most[true] = MIN(s->limits.connections, files.rlim_cur / 8 * 5);
    s->head_limits = http1_default_limits;
    s->head_limits.line_bytes = s->limits.line_bytes;
    s->head_limits.head_bytes = s->limits.header_bytes;
    s->auth = auth__new(l);
    s->idem = idem__new(l);
    buf_init(&s->chunk, CHUNK_MAX);
    s->date_second = -1;
    router__init(&s->router);
    timer_init(&s->grace, l, close_rest, s);
    door__open(s);
    return s;
}

void server_allow(struct server *s, const char *const *hosts, size_t n, const char *public_url,
                  bool behind_proxy)
{
    hosts__set(&s->hosts, hosts, n, public_url, behind_proxy);
}

void server_set_start_dir(struct server *s, struct str dir)
{
    free(s->start_dir);
    s->start_dir = str_dup(dir);
}

void server_set_token(struct server *s, struct str token)
{
    auth__set_token(s->auth, token);
    for (struct conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        if (c->proto->on_end != NULL && !c->over_socket) {
            c->proto->on_end(c); // it was opened with what no longer holds
        }
    }
}

void server_make_code(struct server *s, int64_t seconds, char out[44])
{
    auth__make_code(s->auth, seconds, out);
}

void server_metrics(const struct server *s, struct buf *out)
{
    const struct counts *n = &s->counts;
    buf_addf(out, "afloat_http_connections %zu\n", s->n_conns[false] + s->n_conns[true]);
    buf_addf(out, "afloat_http_connections_total %" PRIu64 "\n", n->connections);
    buf_addf(out, "afloat_http_connections_refused_total %" PRIu64 "\n", n->refused);
    buf_addf(out, "afloat_http_requests_total %" PRIu64 "\n", n->requests);
    for (int i = 2; i <= 5; i++) {
        buf_addf(out, "afloat_http_responses_total{class=\"%dxx\"} %" PRIu64 "\n", i,
                 n->by_class[i]);
    }
    buf_addf(out, "afloat_http_auth_failures_total %" PRIu64 "\n", n->auth_failures);
    buf_addf(out, "afloat_http_bytes_out_total %" PRIu64 "\n", n->bytes_out);
    buf_addf(out, "afloat_sse_readers %zu\n", n->streams);
}

void server_close(struct server *s, uint64_t grace_ms, void (*done)(void *arg), void *arg)
{
    s->closing = true;
    s->done = done;
    s->done_arg = arg;
    s->open_handles++; // ours, until this function is through
    listener__close(s, &s->unix_listener);
    listener__close(s, &s->tcp_listener);
    door__close(s);
    for (struct conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        if (c->proto->on_end != NULL) {
            c->proto->on_end(c);
        } else if (http__idle(c)) {
            conn__close(c);
        }
    }
    timer_start(&s->grace, grace_ms);
    server__handle_closed(s);
}

const char *server__date(struct server *s)
{
    int64_t now = loop_wall(s->loop);
    if (now / 1000 != s->date_second) {
        s->date_second = now / 1000;
        date_format(now, s->date);
    }
    return s->date;
}

void server__socket_init(struct server *s, union server__socket *io, bool over_socket, void *data)
{
    int rc = over_socket ? uv_pipe_init(&s->loop->uv, &io->pipe, 0)
                         : uv_tcp_init(&s->loop->uv, &io->tcp);
    assert(rc == 0); // neither touches the system yet
    (void)rc;
    io->handle.data = data;
    s->open_handles++;
}

void server__handle_closed(struct server *s)
{
    assert(s->open_handles > 0);
    if (--s->open_handles == 0 && s->closing) {
        timer_stop(&s->grace);
        loop_defer(s->loop, finish_closing, s);
    }
}
