// The three wire formats, each fed the same bytes: whatever the split, the same answer comes out, and
// what came out can be sent back in every format.

#include <assert.h>

#include "agent/wire.h"

static const struct wire *const wires[] = {&wire_responses, &wire_chat, &wire_anthropic};

struct reader {
    const struct wire *wire;
    struct wire_reply reply;
    struct buf log;
};

static void on_delta(void *arg, const struct provider_delta *d)
{
    struct reader *r = arg;
    assert((d->text.n != 0) + (d->reasoning.n != 0) + (d->sealed != NULL) == 1);
    buf_adds(&r->log, d->text);
    buf_adds(&r->log, d->reasoning);
    buf_addc(&r->log, d->text.n != 0 ? '\1' : d->sealed != NULL ? '\3' : '\2');
}

static int on_event(void *arg, const struct sse_event *ev)
{
    struct reader *r = arg;
    struct err e;
    int rc = wire_event(r->wire, &r->reply, ev, &e);
    return rc != 0 ? rc : r->reply.ended || r->reply.failed;
}

// The content of an answer as a conversation of its own.
static void send_back(const struct json *content)
{
    struct json_member message[] = {
        {STR("role"), {.type = JSON_STR, .s = STR("assistant")}},
        {STR("content"), *content},
    };
    struct json item = {.type = JSON_OBJ, .n = 2, .members = message};
    struct json_member request[] = {{STR("messages"), {.type = JSON_ARR, .n = 1, .items = &item}}};
    struct json body = {.type = JSON_OBJ, .n = 1, .members = request};
    assert(wire_check(&body, NULL) == 0);
    for (size_t i = 0; i < ARRAY_LEN(wires); i++) {
        struct buf out;
        struct arena a = {0};
        struct json *v;
        buf_init(&out, SIZE_MAX);
        wire_write(wires[i], &out, &body, STR("m"));
        struct json_opts deep = {.max_depth = JSON_DEPTH_MAX};
        assert(json_parse(&v, &a, buf_str(&out), &deep, NULL) == 0);
        arena_fini(&a);
        buf_fini(&out);
    }
}

static void finish(struct reader *r, int rc)
{
    struct provider_response out;
    if (rc < 0 || r->reply.failed) {
        buf_addf(&r->log, "rc %d " STR_FMT, rc, STR_ARG(r->reply.fault.message));
    } else {
        wire_reply_finish(&r->reply, r->wire->kind, &out);
        json_write(&r->log, &out.content, 0);
        buf_addf(&r->log, "%s %lld %d %d", out.stop_reason, (long long)out.usage.input,
                 r->reply.ended, r->reply.finished);
        send_back(&out.content);
    }
    wire_reply_fini(&r->reply);
}

static void run(struct reader *r, const struct wire *wire, struct str bytes, size_t step)
{
    struct sse_parser p;
    int rc = 0;
    r->wire = wire;
    buf_init(&r->log, SIZE_MAX);
    wire_reply_init(&r->reply, on_delta, r);
    sse_init(&p, 1 << 20, on_event, r);
    while (bytes.n != 0 && rc == 0) {
        struct str piece = {bytes.p, MIN(step, bytes.n)};
        rc = sse_feed(&p, piece, NULL);
        bytes = str_from(bytes, piece.n);
    }
    finish(r, rc);
    sse_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str bytes = {(const char *)data, n};
    for (size_t i = 0; i < ARRAY_LEN(wires); i++) {
        struct reader whole, split;
        run(&whole, wires[i], bytes, n);
        run(&split, wires[i], bytes, 3);
        assert(str_eq(buf_str(&whole.log), buf_str(&split.log)));
        buf_fini(&whole.log);
        buf_fini(&split.log);
    }
    return 0;
}
