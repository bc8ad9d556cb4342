// JSON-RPC: lines are the same whatever the split, and each message that is read keeps the promises of its kind.

#include <assert.h>

#include "rpc/rpc.h"

static void check_message(const struct rpc_message *m)
{
    bool has_id = m->id != NULL && (m->id->type == JSON_STR || m->id->type == JSON_INT);
    bool called = m->kind == RPC_REQUEST || m->kind == RPC_NOTIFICATION;
    assert(m->id == NULL || has_id);
    assert((m->kind != RPC_REQUEST && m->kind != RPC_RESULT) || has_id);
    assert(m->kind != RPC_NOTIFICATION || !has_id);
    assert(called == (m->method.n != 0));
    assert((m->kind == RPC_RESULT) == (m->result != NULL));
    assert(m->kind != RPC_INVALID || m->message.n != 0);
}

static void check_line(struct str line)
{
    struct arena a = {0};
    struct rpc_packet p;
    struct err e;
    int rc = rpc_parse(&p, &a, line, &e);
    assert(rc == 0 ? p.n >= 1 && p.n <= RPC_BATCH_MAX : p.n == 0);
    for (size_t i = 0; i < p.n; i++) {
        check_message(&p.messages[i]);
    }
    arena_fini(&a);
}

static void run(struct str bytes, size_t step, struct buf *log)
{
    struct rpc_lines l;
    struct str line;
    rpc_lines_init(&l, 256);
    for (size_t at = 0; at < bytes.n; at += step) {
        rpc_lines_feed(&l, (struct str){bytes.p + at, MIN(step, bytes.n - at)});
        while (rpc_lines_next(&l, &line)) {
            check_line(line);
            buf_adds(log, line);
            buf_addc(log, '\n');
        }
    }
    buf_addc(log, rpc_lines_over(&l) ? '!' : '.');
    rpc_lines_fini(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str bytes = {(const char *)data, n};
    struct buf whole, split;
    buf_init(&whole, 1 << 24);
    buf_init(&split, 1 << 24);
    run(bytes, n + 1, &whole);
    run(bytes, 3, &split);
    assert(str_eq(buf_str(&whole), buf_str(&split)));
    buf_fini(&whole);
    buf_fini(&split);
    return 0;
}
