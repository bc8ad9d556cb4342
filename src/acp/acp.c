// The editor's side: one message a line, requests and answers in both directions.
//
//     stdin ──> lines ──┬─ request ──> session.c ── operations of the hub (hub.c) ──> answer ──> stdout
//                       ├─ notification: cancel
//                       └─ answer to one of our questions (permission, text of a file)
//
// The process lives as long as the editor keeps our stdin open. A turn that runs then continues in the hub: the session
// can be continued from anywhere.
//
// Invariants:
//   - every request of the editor is answered once, unless the editor is gone.
//   - once `closed`, nothing is written and nothing new begins.

#include <assert.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "acp/acp_int.h"
#include "base/path.h"

enum { LINE_MAX_BYTES = 32 << 20 };

struct acp_ask {
    int64_t id;
    acp_asked *done;
    void *arg;
};

struct writing {
    uv_write_t req;
    char bytes[];
};

// ---- writing ----------------------------------------------------------------------------------

static void on_written(uv_write_t *req, int status)
{
    (void)status; // an editor that left shows on stdin
    free(container_of(req, struct writing, req));
}

static void write_line(struct acp *a, struct buf *line)
{
    buf_addc(line, '\n');
    if (a->closed) {
        return;
    }
    if (a->out == NULL) {
        (void)!path_write_fd(a->o.out, buf_str(line));
        return;
    }
    struct writing *w = xmalloc(sizeof *w + line->n);
    memcpy(w->bytes, line->p, line->n);
    uv_buf_t b = uv_buf_init(w->bytes, (unsigned)line->n);
    if (uv_write(&w->req, a->out, &b, 1, on_written) < 0) {
        free(w);
    }
}

static void request_free(struct acp_request *r)
{
    struct arena arena = r->arena;
    arena_fini(&arena);
}

void acp__answer(struct acp_request *r, struct str result)
{
    struct buf line = {.max = SIZE_MAX};
    struct jw w = {.out = &line};
    rpc_begin_result(&w, r->id);
    jw_raw(&w, result);
    rpc_end(&w);
    write_line(r->acp, &line);
    buf_fini(&line);
    request_free(r);
}

static void write_error(struct acp *a, const struct json *id, int64_t code, const char *text)
{
    struct buf line = {.max = SIZE_MAX};
    struct jw w = {.out = &line};
    rpc_error(&w, id, code, "%s", text);
    write_line(a, &line);
    buf_fini(&line);
}

void acp__refuse(struct acp_request *r, int64_t code, const char *fmt, ...)
{
    assert(code < 0);
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    write_error(r->acp, r->id, code, text);
    request_free(r);
}

/// A message with `method`; its params are begun, with the session.
static struct jw *begin_message(struct acp_message *m, struct acp *a, const struct json *id,
                                const char *method, const char *session)
{
    *m = (struct acp_message){.acp = a, .text = {.max = SIZE_MAX}};
    m->w.out = &m->text;
    rpc_begin_request(&m->w, id, method);
    jw_obj(&m->w);
    jw_kstrz(&m->w, "sessionId", session);
    return &m->w;
}

static void end_message(struct acp_message *m)
{
    jw_end_obj(&m->w);
    rpc_end(&m->w);
    write_line(m->acp, &m->text);
    buf_fini(&m->text);
}

struct jw *acp__ask(struct acp_message *m, struct acp *a, const char *session, const char *method)
{
    struct json id = rpc_int_id(++a->last_id);
    struct jw *w = begin_message(m, a, &id, method, session);
    m->id = a->last_id;
    return w;
}

void acp__ask_end(struct acp_message *m, acp_asked *done, void *arg)
{
    struct acp *a = m->acp;
    if (a->closed) {
        buf_fini(&m->text);
        done(arg, NULL);
        return;
    }
    struct acp_ask *q = xmalloc(sizeof *q);
    assert(m->id > 0); // a question, not an update
    *q = (struct acp_ask){.id = m->id, .done = done, .arg = arg};
    vec_push(&a->asks, q);
    end_message(m);
}

struct jw *acp__update(struct acp_message *m, struct acp *a, const char *session, const char *kind)
{
    assert(session[0] != '\0');
    struct jw *w = begin_message(m, a, NULL, "session/update", session);
    jw_kobj(w, "update");
    jw_kstrz(w, "sessionUpdate", kind);
    return w;
}

void acp__update_end(struct acp_message *m)
{
    assert(m->id == 0);
    jw_end_obj(&m->w);
    end_message(m);
}

// ---- reading ----------------------------------------------------------------------------------

static void take_answer(struct acp *a, const struct rpc_message *m)
{
    int64_t id = m->id != NULL && m->id->type == JSON_INT ? m->id->i : 0;
    for (size_t i = 0; i < a->asks.n; i++) {
        struct acp_ask *q = a->asks.p[i];
        if (q->id == id) {
            vec_remove(&a->asks, i);
            q->done(q->arg, m->kind == RPC_RESULT ? m->result : NULL);
            free(q);
            return;
        }
    }
}

static void take_request(struct acp *a, const struct rpc_message *m)
{
    struct arena arena = {0};
    struct acp_request *r = arena_calloc(&arena, 1, sizeof *r);
    char *method = str_dup(m->method);
    r->acp = a;
    r->id = json_clone(&arena, m->id);
    r->params = json_clone(&arena, m->params);
    r->arena = arena;
    if (!acp__method(r, str_of(method))) {
        acp__refuse(r, RPC_METHOD_NOT_FOUND, "there is no method '%.60s'", method);
    }
    free(method);
}

static void take_message(struct acp *a, const struct rpc_message *m)
{
    switch (m->kind) {
    case RPC_REQUEST: take_request(a, m); break;
    case RPC_RESULT:
    case RPC_ERROR: take_answer(a, m); break;
    case RPC_NOTIFICATION:
        if (str_eqz(m->method, "session/cancel")) {
            acp__cancel(a, json_get_text(m->params, "sessionId"));
        }
        break;
    case RPC_INVALID: {
        char *text = str_dup(m->message);
        write_error(a, m->id, RPC_INVALID_REQUEST, text);
        free(text);
        break;
    }
    }
}

static void take_line(struct acp *a, struct str text)
{
    struct arena arena = {0};
    struct rpc_packet packet;
    struct err e = {0};
    if (rpc_parse(&packet, &arena, text, &e) < 0) {
        write_error(a, NULL, e.code == ERR_PARSE ? RPC_PARSE_ERROR : RPC_INVALID_REQUEST, e.msg);
    }
    for (size_t i = 0; i < packet.n && !a->closed; i++) {
        take_message(a, &packet.messages[i]);
    }
    arena_fini(&arena);
}

/// The editor is gone: end all that waits for it.
static void close_all(struct acp *a)
{
    if (a->closed) {
        return;
    }
    a->closed = true;
    while (a->asks.n != 0) {
        struct acp_ask *q = vec_pop(&a->asks);
        q->done(q->arg, NULL);
        free(q);
    }
    if (a->http != NULL) {
        http_client_close(a->http);
        a->http = NULL;
    }
    acp__calls_end(a);
    vec_foreach (it, &a->sessions) {
        (*it)->stream = (*it)->link = NULL;
        acp__link_drop(*it);
        acp__stream_ended(*it, "the editor is gone");
    }
    loop_stop(&a->loop);
}

void acp__take(struct acp *a, struct str bytes)
{
    struct str line;
    rpc_lines_feed(&a->lines, bytes);
    while (!a->closed && rpc_lines_next(&a->lines, &line)) {
        take_line(a, line);
    }
    if (rpc_lines_over(&a->lines)) {
        close_all(a);
    }
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    static char bytes[64 << 10];
    (void)h;
    (void)suggested;
    *out = uv_buf_init(bytes, sizeof bytes);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct acp *a = s->data;
    if (n < 0) {
        close_all(a);
    } else if (n > 0) {
        acp__take(a, (struct str){buf->base, (size_t)n});
    }
}

// ---- life -------------------------------------------------------------------------------------

static void free_handle(uv_handle_t *h)
{
    free(h);
}

/// A pipe or terminal as a stream of the loop; NULL for anything else.
static uv_stream_t *open_stream(struct acp *a, int fd)
{
    if (uv_guess_handle(fd) == UV_NAMED_PIPE) {
        uv_pipe_t *p = xcalloc(1, sizeof *p);
        uv_pipe_init(&a->loop.uv, p, 0);
        p->data = a;
        if (uv_pipe_open(p, fd) == 0) {
            return (uv_stream_t *)p;
        }
        uv_close((uv_handle_t *)p, free_handle);
    }
    return NULL;
}

static void close_stream(uv_stream_t *s)
{
    if (s != NULL) {
        uv_close((uv_handle_t *)s, free_handle);
    }
}

/// The kernel takes socket paths of up to 107 bytes: name it by its directory.
static int find_socket(struct acp *a, struct err *e)
{
    struct str dir = path_dir(str_of(a->o.home->socket));
    char *path = str_dup(dir);
    a->socket_dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(path);
    if (a->socket_dir < 0) {
        return err_sys(e, "cannot open '" STR_FMT "'", STR_ARG(dir));
    }
    struct str base = path_base(str_of(a->o.home->socket));
    a->socket = xasprintf("/proc/self/fd/%d/" STR_FMT, a->socket_dir, STR_ARG(base));
    return 0;
}

/// A file as input: all of it at once, then its end. Answers to it still come.
static void read_file(struct acp *a)
{
    char bytes[64 << 10];
    ssize_t n;
    while (!a->closed && (n = read(a->o.in, bytes, sizeof bytes)) > 0) {
        acp__take(a, (struct str){bytes, (size_t)n});
    }
}

int acp__begin(struct acp *a, const struct acp_opts *o, struct err *e)
{
    *a = (struct acp){.o = *o, .socket_dir = -1};
    int rc = loop_init(&a->loop, NULL, e);
    if (rc < 0) {
        return rc;
    }
    rpc_lines_init(&a->lines, LINE_MAX_BYTES);
    rc = find_socket(a, e);
    if (rc < 0) {
        acp__end(a);
    } else {
        a->http = http_client_open(&a->loop, "afloat-acp");
    }
    return rc;
}

void acp__end(struct acp *a)
{
    close_all(a);
    vec_fini_each(&a->sessions, acp__session_free);
    close_stream(a->in);
    close_stream(a->out);
    while (loop_run_once(&a->loop, false)) {
    }
    (void)!loop_close(&a->loop, NULL);
    rpc_lines_fini(&a->lines);
    vec_fini(&a->asks);
    assert(a->calls.n == 0);
    vec_fini(&a->calls);
    if (a->socket_dir >= 0) {
        close(a->socket_dir);
    }
    free(a->socket);
}

int acp_run(const struct acp_opts *o, struct err *e)
{
    struct acp a;
    int rc = o->start(o->arg, e);
    rc = rc == 0 ? acp__begin(&a, o, e) : rc;
    if (rc < 0) {
        return rc;
    }
    a.in = open_stream(&a, o->in);
    a.out = open_stream(&a, o->out);
    if (a.in != NULL) {
        rc = uv_read_start(a.in, on_alloc, on_read);
    } else {
        read_file(&a);
    }
    loop_run(&a.loop);
    acp__end(&a);
    return rc;
}
