#include "unit/server/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/handlers.h"
#include "base/log.h"
#include "bot/bots.h"
#include "store/store.h"

struct rig rig;

int __real_uv_listen(uv_stream_t *stream, int backlog, uv_connection_cb cb);
int __wrap_uv_listen(uv_stream_t *stream, int backlog, uv_connection_cb cb);
int __wrap_uv_listen(uv_stream_t *stream, int backlog, uv_connection_cb cb)
{
    if (rig.taken != 0) {
        rig.taken--;
        return UV_EADDRINUSE;
    }
    return __real_uv_listen(stream, backlog, cb);
}

// ---- what lies below: handlers that echo, a store that forgets ------------------------------

static void echo(struct op_call *c)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 1 << 20);
    jw_init(&w, &out);
    jw_obj(&w);
    jw_kstrz(&w, "op", ops[c->id].name);
    jw_key(&w, "params");
    jw_value(&w, c->params);
    jw_kint(&w, "run", (int64_t)rig.runs[c->id]);
    jw_end_obj(&w);
    op_answer(c, 200, buf_str(&out));
    buf_fini(&out);
}

static void follow(struct op_call *c)
{
    struct event_filter f = {.types = json_str(json_get(c->params, "types"), "")};
    int64_t after = json_int(json_get(c->params, "after"), -1);
    uint64_t from = after >= 0 ? (uint64_t)after : c->last_event_id;
    if (c->wants_stream) {
        op_answer_stream(c, &f, from);
    } else {
        op_answer(c, 200, STR("{\"events\":[]}"));
    }
}

static void answer_big(struct op_call *c)
{
    char *bytes = xmalloc(rig.big);
    memset(bytes, 'x', rig.big);
    op_answer(c, 200, (struct str){bytes, rig.big});
    free(bytes);
}

static void handle(struct op_call *c)
{
    rig.runs[c->id]++;
    if (c->id == OP_DOCTOR || c->id == OP_FEATURE_DISABLE) {
        CHECK(rig.n_held < ARRAY_LEN(rig.held));
        rig.held[rig.n_held++] = c;
    } else if (c->id == OP_EVENTS) {
        follow(c);
    } else if (c->id == OP_OPENAPI) {
        answer_big(c);
    } else if (c->id == OP_EVENT_EMIT) {
        c->location = "/events/7";
        op_answer(c, 201, STR("{\"id\":7}"));
    } else {
        echo(c);
    }
}

#define OP(id, ...)                                                                                \
    void op_##id(struct api *api, struct op_call *c)                                               \
    {                                                                                              \
        (void)api;                                                                                 \
        handle(c);                                                                                 \
    }
#include "proto/ops.def"
#undef OP

int64_t api_generation(const struct api *api)
{
    (void)api;
    return 3;
}

void bots_terminal_ended(struct bots *b, struct str terminal, int status, const char *action)
{
    (void)b;
    (void)terminal;
    (void)status;
    (void)action;
}

struct gen_engine *api_engine(const struct api *api)
{
    (void)api;
    return rig.engine;
}

bool api_front_file(const struct api *api, struct str name, struct str revision, struct str path,
                    struct api_file *out)
{
    (void)api;
    *out = (struct api_file){STR("export {};"), "text/javascript; charset=utf-8", "abcdefabcdef"};
    return str_eqz(name, "demo") && str_eqz(revision, "2") && str_eqz(path, "a b/index.js");
}

struct terms *api_terms(const struct api *api)
{
    (void)api;
    return NULL; // there are none
}

void api_list_fronts(const struct api *api, void (*url)(void *arg, const char *url), void *arg)
{
    (void)api;
    (void)url; // there are none
    (void)arg;
}

void api_write_fronts(const struct api *api, struct jw *w)
{
    (void)api;
    jw_strz(w, "</script><b>");
}

void api_list_plugins(const struct api *api,
                      void (*row)(void *arg, const char *name, const char *state,
                                  const char *error),
                      void *arg)
{
    (void)api;
    row(arg, "<loud>", "failed", "a & b");
}

double api_uptime_s(const struct api *api)
{
    (void)api;
    return 42.0;
}

void store_read(struct store *s, struct str id, uint64_t after, size_t limit, store_page_cb *cb,
                void *arg)
{
    (void)s, (void)after, (void)limit, (void)cb, (void)arg;
    CHECK(id.n == 0); // there are no sessions here
}

bool store_shared(const struct store *s)
{
    (void)s;
    return false;
}

const struct err *store_trouble(struct store *s)
{
    (void)s;
    return NULL;
}

void store_metrics(struct store *s, struct buf *out)
{
    (void)s, (void)out;
}

void store_health(struct store *s, store_text_cb *cb, void *arg)
{
    (void)s, (void)cb, (void)arg;
}

// never called of a store that is not shared
void store_follow(struct store *s, size_t backlog, store_stream_cb *cb, store_done *ready,
                  void *arg)
{
    (void)backlog, (void)cb, (void)ready, (void)arg;
    CHECK(s == NULL);
}

void store_unfollow(struct store *s)
{
    CHECK(s == NULL);
}

void store_emit(struct store *s, struct str type, struct str session, struct str fields,
                store_emit_cb *cb, void *arg)
{
    (void)type, (void)session, (void)fields, (void)cb, (void)arg;
    CHECK(s == NULL);
}

void store_stream_read(struct store *s, uint64_t after, size_t limit, store_stream_page_cb *cb,
                       void *arg)
{
    (void)after, (void)limit, (void)cb, (void)arg;
    CHECK(s == NULL);
}

struct later {
    store_text_cb *text;
    store_done *done;
    void *arg;
};

static void call_later(void *arg)
{
    struct later l = *(struct later *)arg;
    free(arg);
    if (l.text != NULL) {
        l.text(l.arg, 0, STR_NULL, NULL);
    } else {
        l.done(l.arg, 0, NULL);
    }
}

static void defer(struct later l)
{
    struct later *copy = xmalloc(sizeof *copy);
    *copy = l;
    loop_defer(&rig.loop, call_later, copy);
}

void store_doc_get(struct store *s, struct str name, store_text_cb *cb, void *arg)
{
    (void)s;
    (void)name;
    defer((struct later){.text = cb, .arg = arg});
}

void store_doc_set(struct store *s, struct str name, struct str key, struct str value,
                   store_done *cb, void *arg)
{
    (void)s;
    (void)name;
    (void)key;
    (void)value;
    defer((struct later){.done = cb, .arg = arg});
}

// ---- life ----------------------------------------------------------------------------------

static uint64_t mono(void *arg)
{
    (void)arg;
    return rig.now_ms;
}

static int64_t wall(void *arg)
{
    (void)arg;
    return 1794718872000 + (int64_t)rig.now_ms; // 2026-11-15T05:01:12Z and on
}

static void on_ready(void *arg, int status, const struct err *e)
{
    (void)arg;
    (void)e;
    CHECK_INT(status, 0);
    rig.ready = true;
}

void rig_open(const struct server_limits *limits)
{
    struct loop_clock clock = {.mono_ms = mono, .wall_ms = wall};
    struct err e;
    log_set_level(LOG_ERROR);
    rig.now_ms = 1000000;
    CHECK_INT(loop_init(&rig.loop, &clock, &e), 0);
    CHECK_INT(event_open(&rig.events, &rig.loop, NULL, 1 << 20, on_ready, NULL, &e), 0);
    while (!rig.ready) {
        rig_turn();
    }
    struct server_opts opts = {.events = rig.events,
                               .limits = limits,
                               .version = "1.2.3<x>",
                               .build = "b1",
                               .page = rig.page};
    rig.server = server_open(&rig.loop, &opts);
    snprintf(rig.socket, sizeof rig.socket, "%s/hub.sock", test_dir());
    CHECK_INT(server_listen_unix(rig.server, rig.socket, &e), 0);
    CHECK_INT(server_listen_tcp(rig.server, "127.0.0.1:0", true, &e), 0);
    server_set_token(rig.server, STR(TOKEN));
}

static void on_server_closed(void *arg)
{
    (void)arg;
    rig.closed = true;
}

void rig_close(void)
{
    struct err e;
    while (rig.n_held != 0) {
        rig_answer(rig.n_held - 1, 200, "{}");
    }
    server_close(rig.server, 0, on_server_closed, NULL);
    rig_pass(1);
    while (!rig.closed) {
        rig_turn();
    }
    event_close(rig.events);
    for (int i = 0; i < 4; i++) {
        rig_turn();
    }
    if (loop_close(&rig.loop, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}

void rig_turn(void)
{
    if (!rig.stalled) {
        loop_run_once(&rig.loop, false);
    }
}

void rig_pass(uint64_t ms)
{
    rig.now_ms += ms;
    loop_tick(&rig.loop);
    rig_turn();
}

void rig_answer(size_t i, int status, const char *json)
{
    struct op_call *c = rig.held[i];
    rig.n_held--;
    memmove(&rig.held[i], &rig.held[i + 1], (rig.n_held - i) * sizeof rig.held[0]);
    op_answer(c, status, str_of(json));
}

// ---- clients -------------------------------------------------------------------------------

static int connected(int domain, const void *addr, socklen_t n)
{
    int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (connect(fd, addr, n) < 0) {
        test_fail(__FILE__, __LINE__, "connect: %s", strerror(errno));
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    rig_turn();
    return fd;
}

int rig_unix(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    CHECK(strlen(rig.socket) < sizeof a.sun_path);
    memcpy(a.sun_path, rig.socket, strlen(rig.socket));
    return connected(AF_UNIX, &a, sizeof a);
}

int rig_tcp(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    const char *port = strrchr(server_tcp_address(rig.server), ':') + 1;
    a.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connected(AF_INET, &a, sizeof a);
}

bool rig_send(int fd, const char *bytes, size_t n)
{
    while (n != 0) {
        ssize_t done = send(fd, bytes, n, MSG_NOSIGNAL);
        if (done < 0 && errno != EAGAIN) {
            return false;
        }
        bytes += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
        rig_turn();
    }
    return true;
}

void rig_put(int fd, const char *text)
{
    rig_send(fd, text, strlen(text));
}

// Wait until `fd` has something; the end counts.
static ssize_t peek(int fd, char *out, size_t n)
{
    for (;;) {
        ssize_t got = recv(fd, out, n, MSG_PEEK);
        if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
            return got;
        }
        rig_turn();
    }
}

bool rig_at_end(int fd)
{
    char c;
    return peek(fd, &c, 1) <= 0;
}

static int take_body(void *arg, struct str bytes)
{
    struct answer *a = arg;
    buf_adds(&a->body, bytes);
    return 0;
}

void rig_read(int fd, bool head_only, struct answer *out)
{
    static char bytes[256 * 1024];
    struct err e;
    buf_init(&out->body, 64 << 20);
    http1_init(&out->head, HTTP1_RESPONSE, NULL, take_body, out);
    http1_next(&out->head, head_only);
    while (out->head.state != HTTP1_END) {
        ssize_t got = peek(fd, bytes, sizeof bytes);
        if (got <= 0) {
            test_fail(__FILE__, __LINE__, "the connection ended before its answer");
        }
        struct str rest = {bytes, (size_t)got};
        if (http1_feed(&out->head, &rest, &e) < 0) {
            test_fail(__FILE__, __LINE__, "not an answer: %s in \"%.200s\"", e.msg, bytes);
        }
        CHECK_INT(recv(fd, bytes, (size_t)got - rest.n, 0), got - (ssize_t)rest.n);
    }
}

void answer_fini(struct answer *a)
{
    http1_fini(&a->head);
    buf_fini(&a->body);
}

int rig_ask(int fd, const char *request, char *body, size_t n)
{
    struct answer a;
    rig_put(fd, request);
    rig_read(fd, strncmp(request, "HEAD ", 5) == 0, &a);
    int status = a.head.status;
    if (body != NULL) {
        snprintf(body, n, "%s", buf_z(&a.body));
    }
    answer_fini(&a);
    return status;
}

static int ask_on(int fd, const char *request, char *body, size_t n)
{
    int status = rig_ask(fd, request, body, n);
    close(fd);
    rig_turn();
    return status;
}

int rig_ask_unix(const char *request, char *body, size_t n)
{
    return ask_on(rig_unix(), request, body, n);
}

int rig_ask_tcp(const char *request, char *body, size_t n)
{
    return ask_on(rig_tcp(), request, body, n);
}

const char *rig_host(void)
{
    return server_tcp_address(rig.server);
}
