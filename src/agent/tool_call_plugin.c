// Calls of plugins' tools: Lua in the hub, or a child process (gen_target).

#include <assert.h>

#include "agent/agent_int.h"
#include "base/schema.h"
#include "base/utf8.h"
#include "gen/result.h"

static void tell_progress(void *arg, struct str text)
{
    tool_call__tell_progress(arg, text);
}

struct str tool_call__clip(struct arena *a, struct str s)
{
    if (s.n <= TOOL_OUTPUT_MAX) {
        return s;
    }
    size_t head = utf8_cut(s.p, s.n, TOOL_OUTPUT_MAX / 2), tail = s.n - TOOL_OUTPUT_MAX / 2;
    while (tail < s.n && ((unsigned char)s.p[tail] & 0xC0) == 0x80) {
        tail++;
    }
    return str_of(arena_printf(a, "%.*s\n[... %zu bytes left out ...]\n%.*s", (int)head, s.p,
                               tail - head, (int)(s.n - tail), s.p + tail));
}

static void on_done(struct gen_call *call, int status, const struct json *output,
                    const struct err *e)
{
    struct tool_call *c = call->arg;
    assert(c->calling && c->inquiries == NULL);
    struct arena *a = c->site->arena;
    c->calling = false;
    hook_ctx_merge(c->site->ctx, &c->seen, c->ctx.state != c->seen.state ? c->ctx.state : NULL,
                   c->ctx.memory != c->seen.memory ? c->ctx.memory : NULL);
    if (status < 0) {
        tool_call__fail(c, status == ERR_TIMEOUT ? CALL_TIMEOUT : CALL_BROKEN, e->msg);
        return;
    }
    const struct json *r = gen_result_of(a, output);
    const struct json *error = json_get(r, "error");
    struct str text = json_get_text(r, "output"), why = json_str(error, "");
    c->content = json_clone(a, json_get(r, "content"));
    c->structured = json_clone(a, json_get(r, "structured"));
    c->content_says = arena_str(a, text);
    if (c->site->turn != NULL) { // both go to the model
        text = tool_call__clip(a, text);
        why = tool_call__clip(a, why);
    }
    tool_call__finish_as(c, text, json_bool(json_get(r, "success"), true),
                         error != NULL ? arena_strdup(a, why) : NULL);
}

static void start(struct tool_call *c)
{
    struct gen_item *item = c->entry->data;
    const struct gen_target *face = gen_item_face(item);
    c->ctx = *c->site->ctx;
    c->seen = (struct hook_seen){.state = c->ctx.state, .memory = c->ctx.memory};
    c->ctx.progress = c->site->turn != NULL ? tell_progress : NULL;
    c->ctx.arg = c;
    c->ctx.caller = c->site->turn != NULL ? &inquiry__caller : c->caller;
    c->ctx.caller_arg = c->site->turn != NULL ? c : c->caller_arg;
    c->gen = (struct gen_call){
        .input = schema_defaults(c->entry->schema, tool_call_input(c), c->site->arena),
        .ctx = &c->ctx,
        .done = on_done,
        .arg = c};
    c->calling = true;
    face->call(gen_item_data(item), &c->gen);
}

static bool cancel(struct tool_call *c)
{
    struct gen_item *item = c->entry->data;
    const struct gen_target *face = gen_item_face(item);
    if (c->calling) {
        c->calling = false;
        face->cancel(gen_item_data(item), &c->gen);
    }
    return true;
}

static const struct tool_ops ops = {.start = start, .cancel = cancel};
const struct tool tool_call__plugin_tool = {.effect = TOOL_RUNS, .ops = &ops};
