// Bytes of a connection: parser, admission, routing and parameters. Whatever the split, the same
// requests are served or refused, for the same reasons.

#include <assert.h>

#include "base/log.h"
#include "server/server_int.h"

static struct loop loop;
static struct server *server;

struct session {
    struct http1 parser;
    struct buf body, *log;
};

static int on_body(void *arg, struct str bytes)
{
    struct session *s = arg;
    buf_adds(&s->body, bytes);
    return buf_ok(&s->body) ? 0 : -1;
}

static void serve(struct session *s, const struct asked *q)
{
    struct arena a = {0};
    struct refusal no = {0};
    const struct json *params;
    if (q->target != TARGET_OP) {
        buf_addf(s->log, "[target %d]", (int)q->target);
    } else if (params__build(&a, q, buf_str(&s->body), &params, &no)) {
        buf_addf(s->log, "[%s ", q->match.op->name);
        json_write(s->log, params, 0);
        buf_addz(s->log, "]");
    } else {
        buf_addf(s->log, "[%s %s]", problems[no.problem].code, no.detail);
    }
    arena_fini(&a);
}

// Take one piece in. False when the connection would be closed.
static bool take(struct session *s, struct str piece, struct asked *q, bool *admitted)
{
    struct conn peer = {.server = server, .over_socket = true};
    struct refusal no = {0};
    while (piece.n != 0) {
        if (http1_feed(&s->parser, &piece, NULL) < 0) {
            buf_addz(s->log, "!");
            return false;
        }
        if (s->parser.state != HTTP1_HEAD && !*admitted) {
            if (!request__admit(server, &s->parser, &peer, q, &no)) {
                buf_addf(s->log, "[%s %s]", problems[no.problem].code, no.detail);
                return false;
            }
            *admitted = true;
        }
        if (s->parser.state == HTTP1_END) {
            serve(s, q);
            *admitted = false;
            buf_clear(&s->body);
            http1_next(&s->parser, false);
        }
    }
    return true;
}

// Steps come from a small generator; seed 0 gives everything at once.
static void run(struct str bytes, unsigned seed, struct buf *log)
{
    struct session s = {.log = log};
    struct asked q;
    bool admitted = false;
    buf_init(&s.body, 4096);
    http1_init(&s.parser, HTTP1_REQUEST, NULL, on_body, &s);
    for (bool open = true; open && bytes.n != 0;) {
        size_t n = bytes.n;
        if (seed != 0) {
            seed = seed * 1103515245 + 12345;
            n = MIN(seed / 65536 % 9 + 1, bytes.n);
        }
        open = take(&s, (struct str){bytes.p, n}, &q, &admitted);
        bytes = str_from(bytes, n);
    }
    http1_fini(&s.parser);
    buf_fini(&s.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str bytes = {(const char *)data, n};
    struct buf whole, split;
    if (server == NULL) {
        struct server_opts opts = {.version = "0"};
        int rc = loop_init(&loop, NULL, NULL);
        assert(rc == 0);
        (void)rc;
        server = server_open(&loop, &opts);
        log_set_level(LOG_ERROR);
    }
    buf_init(&whole, 1 << 24);
    buf_init(&split, 1 << 24);
    run(bytes, 0, &whole);
    for (unsigned seed = 1; seed <= 3; seed++) {
        buf_clear(&split);
        run(bytes, seed, &split);
        assert(str_eq(buf_str(&whole), buf_str(&split)));
    }
    buf_fini(&whole);
    buf_fini(&split);
    return 0;
}
