// What an MCP server sends: lines of a conversation in which a handshake and a few requests are open, and the
// text of a project's `.mcp.json`. The first byte says which.

#include <assert.h>

#include "config/config.h"
#include "mcp/peer.h"
#include "mcp/server_int.h"
#include "rpc/rpc.h"

enum { CALLS = 3 };

static int told[CALLS], ends;

static void link_send(struct mcp_link *l, struct str text, const struct mcp_about *about)
{
    (void)l;
    (void)about;
    assert(text.n != 0 && memchr(text.p, '\n', text.n) == NULL);
}

static void link_close(struct mcp_link *l)
{
    (void)l;
}

static const struct mcp_link_ops ops = {.send = link_send, .close = link_close};

static void on_answer(struct mcp_request *r, int status, const struct json *result,
                      const struct err *e)
{
    struct arena a = {0};
    assert((status < 0) == (e != NULL));
    told[(size_t)(uintptr_t)r->arg]++;
    if (status == 0) {
        assert(mcp__result(&a, result) != NULL);
        (void)mcp__prompt_text(&a, result);
    }
    arena_fini(&a);
}

static void on_progress(struct mcp_request *r, struct str text)
{
    (void)r;
    assert(text.n != 0);
}

static void on_ready(void *arg)
{
    *(bool *)arg = true;
}

static void on_changed(void *arg, enum mcp_list list)
{
    (void)arg;
    assert(list < MCP__LISTS);
}

static void on_end(void *arg, const struct err *e)
{
    (void)arg;
    assert(e->msg[0] != '\0');
    ends++;
}

static void converse(struct str bytes)
{
    static const struct mcp_peer_cb cb = {
        .on_ready = on_ready, .on_changed = on_changed, .on_end = on_end};
    struct mcp_request calls[CALLS];
    struct mcp_link link = {.ops = &ops};
    struct rpc_lines lines;
    struct loop loop;
    struct str line;
    bool ready = false, asked = false;
    if (loop_init(&loop, NULL, NULL) < 0) {
        abort();
    }
    memset(told, 0, sizeof told);
    ends = 0;
    struct mcp_peer *p = mcp_peer_over(&loop, &link, 0, &cb, &ready);
    rpc_lines_init(&lines, 1 << 16);
    rpc_lines_feed(&lines, bytes);
    while (rpc_lines_next(&lines, &line)) {
        mcp_peer_text(p, line);
        for (size_t i = 0; ready && !asked && i < CALLS; i++) {
            calls[i] = (struct mcp_request){
                .done = on_answer, .progress = on_progress, .arg = (void *)(uintptr_t)i};
            mcp_peer_ask(p, &calls[i], "tools/call", STR("\"name\":\"x\""), STR("x"));
        }
        asked = ready;
        loop_run_once(&loop, false);
    }
    rpc_lines_fini(&lines);
    assert(ends <= 1);
    for (size_t i = 0; i < CALLS; i++) {
        assert(told[i] <= 1);
    }
    mcp_peer_close(p);
    loop_run(&loop);
    if (loop_close(&loop, NULL) < 0) {
        abort();
    }
}

static void read_file(struct str text)
{
    struct arena a = {0};
    struct json *v;
    if (json_parse(&v, &a, text, NULL, NULL) == 0) {
        struct mcp_spec *s = mcp_spec_new("x", &(struct mcp_place){.project = "/p"}, v, STR_NULL);
        assert(s->error != NULL || (s->command != NULL) != (s->url != NULL));
        assert(s->sandbox && s->timeout_ms >= 1000);
        mcp_spec_free(s);
    }
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n != 0) {
        struct str rest = {(const char *)data + 1, n - 1};
        (data[0] == 'f' ? read_file : converse)(rest);
    }
    return 0;
}
