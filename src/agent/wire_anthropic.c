// anthropic: POST {base_url}/v1/messages.
//
// Messages alternate between user and assistant, so neighbours of one side become one message; in a
// user's message results of tools come first, as the API demands. Blocks of thinking go back with
// their signature, in front of the calls that they led to. Two places are marked for the provider's
// cache: the system prompt and the end of the conversation.
//
// The stream numbers its blocks: start, deltas, stop. Tokens come in two parts: input at the start
// (cached input is not part of it and is added), output at the end.

#include "agent/wire.h"

// The API requires a bound and has no default. This is enough for a long file, and every current model takes it.
enum { MAX_TOKENS = 16384 };

// ---- the request ----------------------------------------------------------------------------

static bool is_assistant(const struct json *message)
{
    return wire_is_role(message, "assistant");
}

/// End the object of a block; `mark` it as the end of what the provider may cache.
static void end_block(struct jw *w, bool mark)
{
    if (mark) {
        jw_kobj(w, "cache_control");
        jw_kstrz(w, "type", "ephemeral");
        jw_end_obj(w);
    }
    jw_end_obj(w);
}

static void write_text(struct jw *w, struct str text, bool mark)
{
    jw_obj(w);
    jw_kstrz(w, "type", "text");
    jw_kstr(w, "text", text);
    end_block(w, mark);
}

static bool is_written(const struct json *item)
{
    enum wire_item_type type = wire_item_type(item);
    if (type == WIRE_TEXT) {
        return wire_item_text(item).n != 0; // the API refuses empty ones
    }
    return type != WIRE_REASONING || wire_item_reasoning(item, wire_anthropic.kind) != NULL;
}

static void write_image(struct jw *w, const struct json *item, bool mark)
{
    struct str url = json_get(item, "url")->s, data = url, head = str_cut(&data, ',');
    bool inside = str_starts(head, "data:") && str_ends(head, ";base64");
    jw_obj(w);
    jw_kstrz(w, "type", "image");
    jw_kobj(w, "source");
    jw_kstrz(w, "type", inside ? "base64" : "url");
    if (inside) {
        jw_kstr(w, "media_type", (struct str){head.p + 5, head.n - 5 - strlen(";base64")});
        jw_kstr(w, "data", data);
    } else {
        jw_kstr(w, "url", url);
    }
    jw_end_obj(w);
    end_block(w, mark);
}

static void write_item(struct jw *w, const struct json *item, bool mark)
{
    enum wire_item_type type = wire_item_type(item);
    if (type == WIRE_TEXT) {
        write_text(w, wire_item_text(item), mark);
    } else if (type == WIRE_IMAGE) {
        write_image(w, item, mark);
    } else if (type == WIRE_CALL) {
        jw_obj(w);
        jw_kstrz(w, "type", "tool_use");
        jw_kstr(w, "id", json_get(item, "id")->s);
        jw_kstr(w, "name", json_get(item, "name")->s);
        jw_key(w, "input");
        wire_write_object(w, json_get(item, "input"));
        jw_end_obj(w);
    } else if (type == WIRE_RESULT) {
        jw_obj(w);
        jw_kstrz(w, "type", "tool_result");
        jw_kstr(w, "tool_use_id", json_get(item, "tool_call_id")->s);
        jw_key(w, "content");
        wire_write_as_text(w, json_get(item, "output"));
        jw_kbool(w, "is_error", !json_bool(json_get(item, "success"), true));
        end_block(w, mark);
    } else {
        jw_value(w, wire_item_reasoning(item, wire_anthropic.kind));
    }
}

// A run of messages of one side; `end` is one past its last.
struct run {
    const struct json *at, *end;
};

// Write the results of tools, or everything else; `*left` counts down to the last item, which is marked.
static void write_run_part(struct jw *w, const struct run *run, bool results, size_t *left,
                           bool mark)
{
    for (const struct json *m = run->at; m < run->end; m++) {
        wire_foreach_item(item, json_get(m, "content"))
        {
            if (is_written(item) && (wire_item_type(item) == WIRE_RESULT) == results) {
                *left -= 1;
                write_item(w, item, mark && *left == 0);
            }
        }
    }
}

static void write_run(struct jw *w, const struct run *run, bool last)
{
    size_t left = 0;
    for (const struct json *m = run->at; m < run->end; m++) {
        wire_foreach_item(item, json_get(m, "content"))
        {
            left += is_written(item);
        }
    }
    if (left == 0) {
        return;
    }
    jw_obj(w);
    jw_kstrz(w, "role", is_assistant(run->at) ? "assistant" : "user");
    jw_karr(w, "content");
    write_run_part(w, run, true, &left, last);
    write_run_part(w, run, false, &left, last);
    jw_end_arr(w);
    jw_end_obj(w);
}

static void write_messages(struct jw *w, const struct json *messages)
{
    const struct json *end = json_items_end(messages);
    struct run run = {.end = json_items(messages)};
    jw_karr(w, "messages");
    while (run.end < end) {
        run.at = run.end;
        while (run.end < end && is_assistant(run.end) == is_assistant(run.at)) {
            run.end++;
        }
        write_run(w, &run, run.end == end);
    }
    jw_end_arr(w);
}

static void write_tool(struct jw *w, const struct json *tool)
{
    const struct json *schema = json_get(tool, "input_schema");
    wire_write_tool_name(w, tool);
    jw_key(w, "input_schema");
    if (json_get(schema, "type") != NULL) {
        jw_value(w, schema);
    } else {
        jw_raw(w, STR("{\"type\":\"object\"}")); // the API requires a type
    }
}

static void write_request(struct jw *w, const struct json *request, struct str model)
{
    struct str system = json_get_text(request, "system");
    wire_write_start(w, model);
    if (!wire_param_given(request, "max_tokens")) {
        jw_kint(w, "max_tokens", MAX_TOKENS);
    }
    if (system.n != 0) {
        jw_karr(w, "system");
        write_text(w, system, true);
        jw_end_arr(w);
    }
    wire_write_tools(w, request, write_tool);
    write_messages(w, json_get(request, "messages"));
    wire_write_params(w, request, "max_tokens");
}

// ---- the stream -----------------------------------------------------------------------------

static int64_t index_of(const struct json *event)
{
    return json_int(json_get(event, "index"), 0);
}

static struct str delta_of(const struct json *event, const char *member)
{
    return json_get_text(json_get(event, "delta"), member);
}

static void on_block_start(struct wire_reply *r, const struct json *event)
{
    const struct json *block = json_get(event, "content_block");
    struct str type = json_get_text(block, "type");
    int64_t key = index_of(event);
    if (str_eqz(type, "text")) {
        wire_reply_text(r, key, json_get_text(block, "text"));
    } else if (str_eqz(type, "tool_use")) {
        struct wire_item *call = wire_reply_add(r, WIRE_CALL, key);
        call->id = wire_reply_keep(r, json_get_text(block, "id"));
        call->name = wire_reply_keep(r, json_get_text(block, "name"));
    } else if (str_eqz(type, "thinking")) {
        wire_reply_add(r, WIRE_REASONING, key);
    } else if (str_eqz(type, "redacted_thinking")) {
        const struct json *data = wire_reply_keep_json(r, block);
        wire_reply_seal(r, wire_reply_add(r, WIRE_REASONING, key), wire_anthropic.kind, data);
    }
}

static void append_to(struct wire_reply *r, enum wire_item_type type, int64_t key, struct str s)
{
    struct wire_item *item = wire_reply_find(r, type, key);
    if (item != NULL) {
        wire_reply_append(r, &item->body, s);
    }
}

static void on_block_delta(struct wire_reply *r, const struct json *event)
{
    int64_t key = index_of(event);
    struct str type = delta_of(event, "type");
    struct str thinking = delta_of(event, "thinking");
    r->thought += thinking.n;
    r->said += delta_of(event, "text").n + delta_of(event, "partial_json").n;
    if (str_eqz(type, "text_delta")) {
        wire_reply_text(r, key, delta_of(event, "text"));
    } else if (str_eqz(type, "input_json_delta")) {
        append_to(r, WIRE_CALL, key, delta_of(event, "partial_json"));
    } else if (str_eqz(type, "thinking_delta")) {
        append_to(r, WIRE_REASONING, key, thinking);
        wire_reply_reasoning(r, thinking);
    } else if (str_eqz(type, "signature_delta")) {
        struct wire_item *item = wire_reply_find(r, WIRE_REASONING, key);
        if (item != NULL) {
            wire_reply_append(r, &item->seal, delta_of(event, "signature"));
        }
    }
}

// A block of thinking is complete: give it the form in which it goes back.
static void on_block_stop(struct wire_reply *r, const struct json *event)
{
    struct wire_item *item = wire_reply_find(r, WIRE_REASONING, index_of(event));
    if (item == NULL || item->data != NULL) {
        return;
    }
    struct json_member members[] = {
        {STR("type"), {.type = JSON_STR, .s = STR("thinking")}},
        {STR("thinking"), {.type = JSON_STR, .s = buf_str(&item->body)}},
        {STR("signature"), {.type = JSON_STR, .s = buf_str(&item->seal)}},
    };
    struct json block = {.type = JSON_OBJ, .n = ARRAY_LEN(members), .members = members};
    wire_reply_seal(r, item, wire_anthropic.kind, wire_reply_keep_json(r, &block));
}

static void take_input_usage(struct wire_reply *r, const struct json *usage)
{
    int64_t fresh = wire_tokens(json_get(usage, "input_tokens"));
    int64_t read = wire_tokens(json_get(usage, "cache_read_input_tokens"));
    int64_t made = wire_tokens(json_get(usage, "cache_creation_input_tokens"));
    if (fresh >= 0) {
        r->usage.cached = MAX(read, 0);
        r->usage.input = fresh + r->usage.cached + MAX(made, 0);
    }
}

static void on_message_start(struct wire_reply *r, const struct json *event)
{
    take_input_usage(r, json_ptr(event, "/message/usage"));
}

static void on_message_delta(struct wire_reply *r, const struct json *event)
{
    static const struct wire_reason reasons[] = {
        {"max_tokens", "max_tokens"},
        {"model_context_window_exceeded", "max_tokens"},
        {"refusal", "refusal"},
        {"pause_turn", "pause_turn"},
    };
    const struct json *usage = json_get(event, "usage");
    take_input_usage(r, usage);
    // The API counts thinking as output. If it does not say how much of the output it is, its share of the bytes does.
    int64_t told = wire_tokens(json_ptr(usage, "/output_tokens_details/thinking_tokens"));
    uint64_t bytes = r->thought + r->said;
    r->usage.output = MAX(r->usage.output, wire_tokens(json_get(usage, "output_tokens")));
    if (told >= 0) {
        r->usage.reasoning = told;
    } else if (r->usage.output >= 0 && bytes != 0) {
        r->usage.reasoning =
            (int64_t)((double)r->usage.output * (double)r->thought / (double)bytes + 0.5);
    }
    wire_reply_stop(r, delta_of(event, "stop_reason"), reasons, ARRAY_LEN(reasons));
}

static void on_message_stop(struct wire_reply *r, const struct json *event)
{
    (void)event;
    r->ended = true;
}

// The details can hold the code that tells a spent budget from a rate limit.
static void on_error(struct wire_reply *r, const struct json *event)
{
    const struct json *error = json_get(event, "error");
    const struct json *code = json_ptr(error, "/details/error_code");
    wire_reply_fail(r, error);
    if (code != NULL) {
        r->fault.code = wire_reply_keep(r, json_str(code, NULL));
    }
}

static const struct wire_event events[] = {
    {"message_start", on_message_start},
    {"content_block_start", on_block_start},
    {"content_block_delta", on_block_delta},
    {"content_block_stop", on_block_stop},
    {"message_delta", on_message_delta},
    {"message_stop", on_message_stop},
    {"error", on_error},
};

static void read_event(struct wire_reply *r, const struct json *event)
{
    (void)wire_reply_dispatch(r, event, events, ARRAY_LEN(events));
}

const struct wire wire_anthropic = {
    .kind = "anthropic",
    .write = write_request,
    .event = read_event,
};
