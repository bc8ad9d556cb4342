// A client's Responses request: whatever is accepted is a neutral request that every wire format can write, and an answer
// written with its tools is read back by our own reader as what was said.

#include <assert.h>

#include "agent/responses.h"
#include "agent/wire.h"

static const struct wire *const wires[] = {&wire_responses, &wire_chat, &wire_anthropic};

static void ignore_delta(void *arg, const struct provider_delta *d)
{
    (void)arg;
    (void)d;
}

static int on_event(void *arg, const struct sse_event *ev)
{
    struct err e;
    return wire_event(&wire_responses, arg, ev, &e);
}

static void answer(const struct responses_request *asked)
{
    struct buf out;
    struct sse_parser sse;
    struct wire_reply reply;
    struct provider_response r;
    struct err e;
    struct responses_writer w = {.out = &out, .id = "r", .model = "m", .tools = asked->tools};
    struct provider_usage usage = {1, -1, 2, -1};
    buf_init(&out, SIZE_MAX);
    responses_begin(&w);
    responses_delta(&w, &(struct provider_delta){.text = STR("said")});
    json_foreach_item (tool, json_get(asked->request, "tools")) {
        responses_call(&w, STR("id"), json_get(tool, "name")->s, STR("{\"input\": \"x\"}"));
    }
    responses_complete(&w, &usage, NULL);
    wire_reply_init(&reply, ignore_delta, NULL);
    sse_init(&sse, SIZE_MAX, on_event, &reply);
    int rc = sse_feed(&sse, buf_str(&out), &e);
    if (rc == 0) { // else more calls than any model means
        wire_reply_finish(&reply, "openai-responses", &r);
        assert(reply.ended && str_eqz(r.text, "said") && r.usage.output == 2);
    }
    sse_fini(&sse);
    wire_reply_fini(&reply);
    responses_fini(&w);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct json_opts opts = {.dup = JSON_DUP_LAST};
    struct arena a = {0};
    struct json *body;
    if (json_parse(&body, &a, (struct str){(const char *)data, n}, &opts, NULL) == 0 &&
        body->type == JSON_OBJ) {
        for (size_t i = 0; i < ARRAY_LEN(wires); i++) {
            struct responses_request asked;
            struct err e;
            const char *param;
            struct buf out;
            if (responses_read(&asked, &a, body, wires[i]->kind, &param, &e) == 0) {
                assert(wire_check(asked.request, &e) == 0 && asked.n >= 1);
                buf_init(&out, SIZE_MAX);
                wire_write(wires[i], &out, asked.request, STR("m"));
                buf_fini(&out);
                answer(&asked);
            }
        }
    }
    arena_fini(&a);
    return 0;
}
