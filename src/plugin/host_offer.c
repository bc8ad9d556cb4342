// Tools, commands, prompt sections, providers, and what MCP clients see, that lead into a host.
//
//     gen_call ── schema ──> host_call(tool, command, ...) ┄┄> result ──> gen_call.done
//                                                           └┄> emit ──> gen_call.emit, of providers
//
// Whatever a tool answers becomes a result {output, success, error?}; a command's answer is any JSON; that
// of a prompt section is a text.

#include <assert.h>

#include "base/path.h"
#include "base/schema.h"
#include "base/time.h"
#include "gen/result.h"
#include "plugin/host_unit_int.h"

struct call_job {
    struct host_call call;
    struct gen_call *gen;
    struct offer *offer;
    struct hook_seen seen;
    uint64_t since_ns;
};

static const char *const types[] = {
    [OFFER_TOOL] = "tool",
    [OFFER_COMMAND] = "command",
    [OFFER_PROMPT] = "prompt",
    [OFFER_PROVIDER] = "provider",
    [OFFER_MCP_PROMPT] = "mcp_prompt",
    [OFFER_MCP_RESOURCE] = "mcp_resource",
};

/// The member that a call's input is.
static const char *const inputs[] = {
    [OFFER_TOOL] = "input",
    [OFFER_COMMAND] = "args",
    [OFFER_PROVIDER] = "request",
    [OFFER_MCP_PROMPT] = "arguments",
};

/// What the code left in ctx comes first, then its answer; a fault is told with its place in the plugin.
static void on_done(struct host_call *c, int status, const struct json *value,
                    const struct host_fault *fault)
{
    struct call_job *j = container_of(c, struct call_job, call);
    static const struct json nothing = {.type = JSON_NULL}, no_text = {.type = JSON_STR};
    struct gen_call *gen = j->gen;
    struct hook_ctx *ctx = gen->ctx;
    enum offer_kind kind = j->offer->kind;
    const struct json *out = value != NULL ? value : &nothing;
    struct arena a = {0};
    struct err e = {0};
    int rc = 0;
    if (status < 0 && (fault->path == NULL || fault->line == 0)) {
        rc = err_set(&e, status, "%s", fault->message);
    } else if (status < 0) {
        struct str file = path_base(str_of(fault->path));
        rc = err_set(&e, status, "%s (" STR_FMT ":%d)", fault->message, STR_ARG(file), fault->line);
    } else if (ctx != NULL && ctx->arena != NULL && j->offer->unit->rules->whole) {
        const struct json *state = json_get(c->answer, "state");
        const struct json *memory = json_get(c->answer, "memory");
        rc = state != NULL || memory != NULL ? hook_ctx_take(ctx, &j->seen, state, memory, &e) : 0;
    }
    if (rc == 0 && kind == OFFER_TOOL) {
        out = gen_result_of(&a, value);
    } else if (rc == 0 && kind == OFFER_PROMPT && out->type == JSON_NULL) {
        out = &no_text;
    } else if (rc == 0 && kind == OFFER_PROMPT && out->type != JSON_STR) {
        rc = err_set(&e, ERR_INVALID, "a prompt section must be a text, not %s",
                     json_type_name(value));
    }
    host__count(j->offer, j->since_ns, rc < 0);
    host__note_call(j->offer, rc, &e, fault);
    free(j);
    gen->done(gen, rc, rc < 0 ? NULL : out, rc < 0 ? &e : NULL);
    arena_fini(&a);
}

static void on_progress(struct host_call *c, struct str text)
{
    const struct hook_ctx *ctx = container_of(c, struct call_job, call)->gen->ctx;
    if (ctx != NULL && ctx->progress != NULL) {
        ctx->progress(ctx->arg, text);
    }
}

static int on_emit(struct host_call *c, const struct json *event, struct err *e)
{
    struct gen_call *gen = container_of(c, struct call_job, call)->gen;
    return gen->emit(gen, event, e);
}

static void call(void *data, struct gen_call *gen)
{
    struct offer *o = data;
    const struct json *input = gen->input;
    const struct hook_args none = {.ctx = gen->ctx};
    struct buf text = {.max = SIZE_MAX};
    struct arena a = {0};
    struct err e = {0};
    assert(types[o->kind] != NULL);
    int rc = o->schema != NULL ? schema_fit(o->schema, input, "input", &e) : 0;
    if (rc == 0 && !host__is_live(o)) {
        rc = err_set(&e, UV_EPIPE, "the host of %s '%s' has ended", types[o->kind], o->name);
    }
    if (rc < 0) {
        gen->done(gen, rc, NULL, &e);
        return;
    }
    struct call_job *j = xcalloc(1, sizeof *j);
    *j = (struct call_job){
        .call = {.done = on_done,
                 .progress = on_progress,
                 .emit = gen->emit != NULL ? on_emit : NULL,
                 .timeout_ms = gen->timeout_ms != 0 ? gen->timeout_ms : host__tool_ms(o->unit)},
        .gen = gen,
        .offer = o,
        .since_ns = time_mono_ns(),
    };
    if (gen->ctx != NULL) {
        j->seen = (struct hook_seen){gen->ctx->state, gen->ctx->memory};
    }
    gen->target_data = j;
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "name", o->name);
    if (o->kind == OFFER_TOOL || o->kind == OFFER_PROMPT) {
        hook_args_write(&none, &w);
    } else {
        hook_ctx_write(gen->ctx, &w);
    }
    if (o->kind == OFFER_TOOL && o->schema != NULL && input != NULL) {
        input = schema_defaults(o->schema, input, &a);
    }
    if (o->kind == OFFER_MCP_RESOURCE) {
        jw_kvalue(&w, "uri", json_get(input, "uri"));
        jw_kvalue(&w, "params", json_get(input, "params"));
    } else if (o->kind != OFFER_PROMPT) {
        jw_kvalue(&w, inputs[o->kind], input);
    }
    jw_kint(&w, "deadline_ms", j->call.timeout_ms);
    jw_end_obj(&w);
    host_call(o->unit->host, &j->call, types[o->kind], host__inner(&text));
    buf_fini(&text);
    arena_fini(&a);
}

static void cancel(void *data, struct gen_call *gen)
{
    struct call_job *j = gen->target_data;
    host__cancel(data, &j->call);
    free(j);
}

const struct gen_target host__call_face = {.call = call, .cancel = cancel, .stats = host__stats};
