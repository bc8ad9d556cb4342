// Messages of the stdio bridge to its client: one a line, and nothing else.

#include <unistd.h>

#include "base/path.h"
#include "bridge/bridge_int.h"

void bridge__say(struct bridge *b, struct str message)
{
    struct buf line = {.max = SIZE_MAX};
    buf_adds(&line, message);
    for (size_t i = 0; i < line.n; i++) {
        line.p[i] = (char)(line.p[i] == '\n' || line.p[i] == '\r' ? ' ' : line.p[i]);
    }
    buf_addc(&line, '\n');
    b->over = b->over || path_write_fd(STDOUT_FILENO, buf_str(&line)) < 0; // the client is gone
    buf_fini(&line);
}

void bridge__error(struct bridge *b, const struct json *id, int64_t code, struct str text)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    rpc_error(&w, id, code, STR_FMT, STR_ARG(text));
    bridge__say(b, buf_str(&out));
    buf_fini(&out);
}

void bridge__fail(struct bridge *b, const char *line, int64_t code, const char *text)
{
    struct rpc_packet p;
    struct arena a = {0};
    if (rpc_parse(&p, &a, str_of(line), NULL) == 0) {
        for (size_t i = 0; i < p.n; i++) {
            if (p.messages[i].kind == RPC_REQUEST) {
                bridge__error(b, p.messages[i].id, code, str_of(text));
            }
        }
    }
    arena_fini(&a);
}

void bridge__changed(struct bridge *b, const char *method, const struct json *subscription)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    rpc_begin_request(&w, NULL, method);
    jw_obj(&w);
    if (subscription != NULL) {
        jw_kobj(&w, "_meta");
        jw_kvalue(&w, "io.modelcontextprotocol/subscriptionId", subscription);
        jw_end_obj(&w);
    }
    jw_end_obj(&w);
    rpc_end(&w);
    bridge__say(b, buf_str(&out));
    buf_fini(&out);
}
