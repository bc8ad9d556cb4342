// An answer as the events of a Responses stream.
//
//     responses_begin ─> created, in_progress
//     responses_delta ─> output_item.added, part.added, delta, delta, ... ─> (another item begins) ... done
//     responses_done  ─> the calls, each added, delta, done ─> completed or incomplete, with the usage
//     responses_fail  ─> failed
//
// A provider hands out calls only with a complete answer, so a call's arguments come as one delta. A block of
// reasoning that its provider wants back is sealed into `encrypted_content`: clients return that member as it is.
//
// Invariant: `open` is the item whose `added` was written and whose `done` was not; its index is `index`.

#include <assert.h>

#include "agent/responses.h"
#include "agent/responses_int.h"
#include "base/base64.h"
#include "net/sse.h"

enum { KEPT_MAX = 32 * 1024 * 1024 }; // of one answer; what is longer ends as incomplete

// ---- one event ------------------------------------------------------------------------------

struct event {
    struct buf json;
    struct jw w;
    const char *type;
};

static struct jw *event_begin(struct event *ev, struct responses_writer *w, const char *type)
{
    ev->type = type;
    buf_init(&ev->json, SIZE_MAX);
    jw_init(&ev->w, &ev->json);
    jw_obj(&ev->w);
    jw_kstrz(&ev->w, "type", type);
    jw_kint(&ev->w, "sequence_number", w->seq++);
    return &ev->w;
}

static void event_end(struct event *ev, struct responses_writer *w)
{
    jw_end_obj(&ev->w);
    if (w->out != NULL) {
        sse_write(w->out, STR_NULL, str_of(ev->type), buf_str(&ev->json));
    }
    buf_fini(&ev->json);
}

/// Write the id of the item under way. A brief answer has none.
static void write_id(struct responses_writer *w, struct jw *jw, const char *key, const char *prefix)
{
    if (!w->brief) {
        jw_key(jw, key);
        jw_strf(jw, "%s_%s_%lld", prefix, w->id, (long long)w->index);
    }
}

/// Begin an event about the item under way.
static struct jw *item_event(struct event *ev, struct responses_writer *w, const char *type,
                             const char *prefix)
{
    struct jw *jw = event_begin(ev, w, type);
    write_id(w, jw, "item_id", prefix);
    jw_kint(jw, "output_index", w->index);
    return jw;
}

static void write_usage(struct jw *jw, const struct provider_usage *u)
{
    jw_kobj(jw, "usage");
    jw_kint(jw, "input_tokens", MAX(u->input, 0));
    jw_kobj(jw, "input_tokens_details");
    jw_kint(jw, "cached_tokens", MAX(u->cached, 0));
    jw_end_obj(jw);
    jw_kint(jw, "output_tokens", MAX(u->output, 0));
    jw_kobj(jw, "output_tokens_details");
    jw_kint(jw, "reasoning_tokens", MAX(u->reasoning, 0));
    jw_end_obj(jw);
    jw_kint(jw, "total_tokens", MAX(u->input, 0) + MAX(u->output, 0));
    jw_end_obj(jw);
}

// ---- the kinds of items ---------------------------------------------------------------------

/// How an item of text is written.
struct text_kind {
    const char *prefix, *type;                         // of its id; of the item
    const char *part_added, *delta, *done, *part_done; // events
    const char *part_type, *part_index;
};

static const struct text_kind text_kinds[] = {
    [RESPONSES_TEXT] = {"msg", "message", "response.content_part.added",
                        "response.output_text.delta", "response.output_text.done",
                        "response.content_part.done", "output_text", "content_index"},
    [RESPONSES_REASONING] = {"rs", "reasoning", "response.reasoning_summary_part.added",
                             "response.reasoning_summary_text.delta",
                             "response.reasoning_summary_text.done",
                             "response.reasoning_summary_part.done", "summary_text",
                             "summary_index"},
};

static void write_part(struct jw *jw, const struct text_kind *k, struct str text)
{
    jw_obj(jw);
    jw_kstrz(jw, "type", k->part_type);
    jw_kstr(jw, "text", text);
    if (k == &text_kinds[RESPONSES_TEXT]) {
        jw_kstrs(jw, "annotations", NULL, 0);
        jw_kstrs(jw, "logprobs", NULL, 0);
    }
    jw_end_obj(jw);
}

/// Write the block that goes back to its provider, as a text that clients cannot read.
static void write_seal(struct jw *jw, const struct json *sealed)
{
    struct buf block = {.max = SIZE_MAX}, seal = {.max = SIZE_MAX};
    json_write(&block, sealed, 0);
    buf_addz(&seal, RESPONSES_SEAL);
    base64_encode(&seal, buf_str(&block));
    jw_kstr(jw, "encrypted_content", sealed->type == JSON_STR ? sealed->s : buf_str(&seal));
    buf_fini(&seal);
    buf_fini(&block);
}

/// The item under way: as it begins, or `done`.
static void write_text_item(struct responses_writer *w, struct jw *jw, bool done,
                            const struct json *sealed)
{
    const struct text_kind *k = &text_kinds[w->open];
    jw_obj(jw);
    jw_kstrz(jw, "type", k->type);
    write_id(w, jw, "id", k->prefix);
    if (w->open == RESPONSES_TEXT) {
        jw_kstrz(jw, "role", "assistant");
        jw_kstrz(jw, "status", done ? "completed" : "in_progress");
    }
    if (!w->brief) {
        jw_karr(jw, w->open == RESPONSES_TEXT ? "content" : "summary");
        if (done && (w->open == RESPONSES_TEXT || w->text.n != 0)) {
            write_part(jw, k, buf_str(&w->text));
        }
        jw_end_arr(jw);
    }
    if (sealed != NULL) {
        write_seal(jw, sealed);
    }
    jw_end_obj(jw);
}

/// Write the event that the item whose JSON is `item` begins, or is complete.
static void write_item_event(struct responses_writer *w, const char *type, const struct buf *item)
{
    struct event ev;
    struct jw *jw = event_begin(&ev, w, type);
    jw_kint(jw, "output_index", w->index);
    jw_key(jw, "item");
    jw_raw(jw, buf_str(item));
    event_end(&ev, w);
}

static void begin_item(struct responses_writer *w, struct buf *item)
{
    write_item_event(w, "response.output_item.added", item);
    buf_fini(item);
}

/// End the item under way, and keep it for the response.
static void end_item(struct responses_writer *w, struct buf *item)
{
    write_item_event(w, "response.output_item.done", item);
    w->index++;
    if (!w->brief) {
        buf_addz(&w->items, w->items.n != 0 ? "," : "");
        buf_adds(&w->items, buf_str(item));
    }
    buf_fini(item);
}

static void write_part_event(struct responses_writer *w, const char *type, struct str text)
{
    const struct text_kind *k = &text_kinds[w->open];
    struct event ev;
    struct jw *jw = item_event(&ev, w, type, k->prefix);
    jw_kint(jw, k->part_index, 0);
    jw_key(jw, "part");
    write_part(jw, k, text);
    event_end(&ev, w);
}

static void open_text(struct responses_writer *w, enum responses_open open)
{
    struct buf item;
    struct jw jw;
    assert(w->open == RESPONSES_NONE);
    w->open = open;
    if (!w->brief) {
        buf_init(&item, SIZE_MAX);
        jw_init(&jw, &item);
        write_text_item(w, &jw, false, NULL);
        begin_item(w, &item);
        write_part_event(w, text_kinds[open].part_added, STR(""));
    }
}

static void close_text(struct responses_writer *w, const struct json *sealed)
{
    const struct text_kind *k = &text_kinds[w->open];
    struct buf item = {.max = SIZE_MAX};
    struct event ev;
    struct jw jw;
    if (w->open == RESPONSES_NONE) {
        return;
    }
    if (!w->brief) {
        struct jw *done = item_event(&ev, w, k->done, k->prefix);
        jw_kint(done, k->part_index, 0);
        jw_kstr(done, "text", buf_str(&w->text));
        if (w->open == RESPONSES_TEXT) {
            jw_kstrs(done, "logprobs", NULL, 0);
        }
        event_end(&ev, w);
        write_part_event(w, k->part_done, buf_str(&w->text));
    }
    jw_init(&jw, &item);
    write_text_item(w, &jw, true, sealed);
    end_item(w, &item);
    w->open = RESPONSES_NONE;
    buf_clear(&w->text);
}

static void write_delta(struct responses_writer *w, enum responses_open open, struct str text)
{
    const struct text_kind *k = &text_kinds[open];
    struct event ev;
    if (w->cut) {
        return;
    }
    if (w->open != open) {
        close_text(w, NULL);
        open_text(w, open);
    }
    struct jw *jw = item_event(&ev, w, k->delta, k->prefix);
    if (!w->brief) {
        jw_kint(jw, k->part_index, 0);
        w->cut = w->items.n + w->text.n + text.n > KEPT_MAX;
        buf_adds(&w->text, text);
    }
    jw_kstr(jw, "delta", text);
    if (!w->brief && open == RESPONSES_TEXT) {
        jw_kstrs(jw, "logprobs", NULL, 0);
    }
    event_end(&ev, w);
}

void responses_delta(struct responses_writer *w, const struct provider_delta *d)
{
    if (d->sealed != NULL) {
        if (w->open != RESPONSES_REASONING) {
            close_text(w, NULL);
            open_text(w, RESPONSES_REASONING);
        }
        close_text(w, d->sealed);
    } else if (d->reasoning.n != 0) {
        write_delta(w, RESPONSES_REASONING, d->reasoning);
    } else {
        write_delta(w, RESPONSES_TEXT, d->text);
    }
}

// ---- calls ----------------------------------------------------------------------------------

/// The client's tool of that name, and the namespace it is in.
static const struct json *find_tool(const struct json *tools, struct str name, struct str *space)
{
    struct arena a = {0};
    const struct json *found = NULL;
    *space = STR_NULL;
    json_foreach_item (tool, tools) {
        struct str outer = json_get_text(tool, "name");
        if (str_eq(outer, name)) {
            found = tool;
        }
        json_foreach_item (inner, json_get(tool, "tools")) {
            struct str own = json_get_text(inner, "name");
            if (found == NULL && str_eq(responses__flat_name(&a, outer, own), name)) {
                found = inner;
                *space = outer;
            }
        }
    }
    arena_fini(&a);
    return found;
}

struct told_call {
    struct str id, name, space, arguments;
    bool custom;
};

static void write_call_item(struct responses_writer *w, struct buf *out, const struct told_call *c,
                            bool done)
{
    buf_init(out, SIZE_MAX);
    struct jw jw = {.out = out};
    jw_obj(&jw);
    jw_kstrz(&jw, "type", c->custom ? "custom_tool_call" : "function_call");
    write_id(w, &jw, "id", c->custom ? "ctc" : "fc");
    if (!w->brief) {
        jw_kstrz(&jw, "status", done ? "completed" : "in_progress");
    }
    jw_kstr(&jw, "call_id", c->id);
    jw_kstr(&jw, "name", c->name);
    if (c->space.n != 0) {
        jw_kstr(&jw, "namespace", c->space);
    }
    jw_kstr(&jw, c->custom ? "input" : "arguments", done ? c->arguments : STR(""));
    jw_end_obj(&jw);
}

static void tell_arguments(struct responses_writer *w, const struct told_call *c)
{
    static const char *const types[2][2] = {
        {"response.function_call_arguments.delta", "response.function_call_arguments.done"},
        {"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"}};
    const char *prefix = c->custom ? "ctc" : "fc";
    struct event ev;
    struct jw *jw = item_event(&ev, w, types[c->custom][0], prefix);
    jw_kstr(jw, "delta", c->arguments);
    event_end(&ev, w);
    jw = item_event(&ev, w, types[c->custom][1], prefix);
    jw_kstr(jw, c->custom ? "input" : "arguments", c->arguments);
    if (!c->custom) {
        jw_kstr(jw, "name", c->name);
    }
    event_end(&ev, w);
}

void responses_call(struct responses_writer *w, struct str id, struct str name,
                    struct str arguments)
{
    struct told_call c = {.id = id, .name = name, .arguments = arguments};
    struct buf item;
    struct arena a = {0};
    const struct json *tool = find_tool(w->tools, name, &c.space);
    if (tool != NULL) {
        c.name = json_get_text(tool, "name");
        c.custom = str_eqz(json_get_text(tool, "type"), "custom");
    }
    struct json *v = NULL;
    // else all that the model wrote
    if (c.custom && json_parse(&v, &a, arguments, NULL, NULL) == 0) {
        const struct json *input = json_get(v, RESPONSES_CUSTOM_INPUT);
        c.arguments = input != NULL && input->type == JSON_STR ? input->s : arguments;
    }
    close_text(w, NULL);
    if (!w->brief) {
        write_call_item(w, &item, &c, false);
        begin_item(w, &item);
        tell_arguments(w, &c);
    }
    write_call_item(w, &item, &c, true);
    end_item(w, &item);
    arena_fini(&a);
}

// ---- the response ---------------------------------------------------------------------------

/// Write a member of the request, or the API's default for it.
static void repeat(struct responses_writer *w, struct jw *jw, const char *key, const char *instead)
{
    const struct json *v = json_get(w->body, key);
    jw_key(jw, key);
    if (v != NULL) {
        jw_value(jw, v);
    } else {
        jw_raw(jw, str_of(instead));
    }
}

void responses_write_object(struct responses_writer *w, struct jw *jw, const char *status,
                            const struct provider_usage *usage, const char *incomplete,
                            const struct provider_error *why)
{
    jw_obj(jw);
    jw_kstrz(jw, "id", w->id);
    jw_kstrz(jw, "status", status);
    if (!w->brief) {
        jw_kstrz(jw, "object", "response");
        jw_kint(jw, "created_at", w->created_s);
        jw_kstrz(jw, "model", w->model);
        jw_karr(jw, "output");
        if (w->items.n != 0) {
            jw_raw(jw, buf_str(&w->items));
        }
        jw_end_arr(jw);
        repeat(w, jw, "instructions", "null");
        repeat(w, jw, "metadata", "{}");
        repeat(w, jw, "parallel_tool_calls", "true");
        repeat(w, jw, "temperature", "null");
        repeat(w, jw, "tool_choice", "\"auto\"");
        repeat(w, jw, "tools", "[]");
        repeat(w, jw, "top_p", "null");
        repeat(w, jw, "max_output_tokens", "null");
        repeat(w, jw, "reasoning", "null");
        repeat(w, jw, "text", "{\"format\":{\"type\":\"text\"}}");
        jw_kstrz(jw, "previous_response_id", NULL);
        jw_kbool(jw, "store", false);
        if (why == NULL) {
            jw_kstrz(jw, "error", NULL);
        }
    }
    if (why != NULL) {
        jw_kobj(jw, "error");
        jw_kstrz(jw, "code", responses_error_of(why).code);
        jw_kstrz(jw, "message", why->message);
        jw_end_obj(jw);
    }
    if (incomplete != NULL) {
        jw_kobj(jw, "incomplete_details");
        jw_kstrz(jw, "reason", incomplete);
        jw_end_obj(jw);
    } else if (!w->brief) {
        jw_kstrz(jw, "incomplete_details", NULL);
    }
    if (usage != NULL) {
        write_usage(jw, usage);
    } else if (!w->brief) {
        jw_kstrz(jw, "usage", NULL);
    }
    jw_end_obj(jw);
}

static void response_event(struct responses_writer *w, const char *type, const char *status,
                           const struct provider_usage *usage, const char *incomplete,
                           const struct provider_error *why)
{
    struct event ev;
    struct jw *jw = event_begin(&ev, w, type);
    jw_key(jw, "response");
    responses_write_object(w, jw, status, usage, incomplete, why);
    event_end(&ev, w);
}

void responses_begin(struct responses_writer *w)
{
    buf_init(&w->text, SIZE_MAX);
    buf_init(&w->items, SIZE_MAX);
    response_event(w, "response.created", "in_progress", NULL, NULL, NULL);
    if (!w->brief) {
        response_event(w, "response.in_progress", "in_progress", NULL, NULL, NULL);
    }
}

const char *responses_incomplete(const char *stop_reason)
{
    return strcmp(stop_reason, "max_tokens") == 0 ? "max_output_tokens"
           : strcmp(stop_reason, "refusal") == 0  ? "content_filter"
                                                  : NULL;
}

void responses_complete(struct responses_writer *w, const struct provider_usage *usage,
                        const char *incomplete)
{
    close_text(w, NULL);
    incomplete = w->cut ? "max_output_tokens" : incomplete;
    response_event(w, incomplete != NULL ? "response.incomplete" : "response.completed",
                   incomplete != NULL ? "incomplete" : "completed", usage, incomplete, NULL);
}

void responses_done(struct responses_writer *w, const struct provider_response *r)
{
    for (size_t i = 0; i < r->n_tool_calls; i++) {
        const struct provider_tool_call *c = &r->tool_calls[i];
        responses_call(w, c->id, c->name, c->raw.n != 0 ? c->raw : STR("{}"));
    }
    responses_complete(w, &r->usage, responses_incomplete(r->stop_reason));
}

void responses_fail(struct responses_writer *w, const struct provider_error *why)
{
    response_event(w, "response.failed", "failed", NULL, NULL, why);
}

void responses_fini(struct responses_writer *w)
{
    buf_fini(&w->text);
    buf_fini(&w->items);
}

// ---- errors ---------------------------------------------------------------------------------

struct responses_error responses_error_of(const struct provider_error *why)
{
    static const struct responses_error table[PROVIDER_FAULT__COUNT] = {
        [PROVIDER_UNREACHABLE] = {502, "server_error", "server_error"},
        [PROVIDER_OVERLOADED] = {503, "server_error", "server_is_overloaded"},
        [PROVIDER_RATE_LIMITED] = {429, "rate_limit_error", "rate_limit_exceeded"},
        [PROVIDER_CUT] = {502, "server_error", "server_error"},
        [PROVIDER_IDLE] = {504, "server_error", "server_error"},
        [PROVIDER_QUOTA] = {429, "insufficient_quota", "insufficient_quota"},
        [PROVIDER_AUTH] = {401, "authentication_error", "invalid_api_key"},
        [PROVIDER_CONTEXT] = {400, "invalid_request_error", "context_length_exceeded"},
        [PROVIDER_REJECTED] = {400, "invalid_request_error", "invalid_prompt"},
        [PROVIDER_TOO_LARGE] = {502, "server_error", "server_error"},
        [PROVIDER_SCENARIO] = {400, "invalid_request_error", "invalid_prompt"},
        [PROVIDER_PLUGIN] = {500, "server_error", "server_error"},
    };
    struct responses_error e = table[why->fault];
    if (why->fault == PROVIDER_REJECTED && why->status == 404) {
        e = (struct responses_error){404, "invalid_request_error", "model_not_found"};
    }
    assert(e.status != 0);
    return e;
}

void responses_write_error(struct buf *out, struct str message, const char *type, const char *param,
                           const char *code)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kobj(&w, "error");
    jw_kstr(&w, "message", message);
    jw_kstrz(&w, "type", type);
    jw_kstrz(&w, "param", param);
    jw_kstrz(&w, "code", code);
    jw_end_obj(&w);
    jw_end_obj(&w);
}
