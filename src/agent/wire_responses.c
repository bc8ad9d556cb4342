// openai-responses: POST {base_url}/responses.
//
// The conversation is a flat list of items, stateless (`store: false`): a message, a function_call,
// its function_call_output, and reasoning items, whose encrypted content is asked for and sent back
// unchanged, in front of the calls that they led to.
//
// Few events of the stream are needed. Text comes in deltas; everything else is complete in
// `response.output_item.done`, so deltas of arguments are ignored. The end is `response.completed` or
// `response.incomplete`, with the usage; without one the answer was cut.

#include "agent/wire.h"

// ---- the request ----------------------------------------------------------------------------

static void write_item(struct jw *w, const struct json *message, const struct json *item)
{
    enum wire_item_type type = wire_item_type(item);
    struct str text = wire_item_text(item);
    bool image = type == WIRE_IMAGE && wire_is_role(message, "user");
    if (image || (type == WIRE_TEXT && text.n != 0)) {
        bool assistant = wire_is_role(message, "assistant");
        bool system = wire_is_role(message, "system");
        jw_obj(w);
        jw_kstrz(w, "type", "message");
        jw_kstrz(w, "role", assistant ? "assistant" : system ? "developer" : "user");
        jw_karr(w, "content");
        jw_obj(w);
        jw_kstrz(w, "type", image ? "input_image" : assistant ? "output_text" : "input_text");
        jw_kstr(w, image ? "image_url" : "text", image ? json_get(item, "url")->s : text);
        jw_end_obj(w);
        jw_end_arr(w);
        jw_end_obj(w);
    } else if (type == WIRE_CALL) {
        jw_obj(w);
        jw_kstrz(w, "type", "function_call");
        jw_kstr(w, "call_id", json_get(item, "id")->s);
        jw_kstr(w, "name", json_get(item, "name")->s);
        wire_write_arguments(w, item);
        jw_end_obj(w);
    } else if (type == WIRE_RESULT) {
        jw_obj(w);
        jw_kstrz(w, "type", "function_call_output");
        jw_kstr(w, "call_id", json_get(item, "tool_call_id")->s);
        jw_key(w, "output");
        wire_write_as_text(w, json_get(item, "output"));
        jw_end_obj(w);
    } else if (type == WIRE_REASONING) {
        const struct json *data = wire_item_reasoning(item, wire_responses.kind);
        if (data != NULL) {
            jw_value(w, data);
        }
    }
}

// Models without reasoning refuse a request for it.
static bool can_reason(struct str model)
{
    static const char *const old[] = {"gpt-3", "gpt-4", "chatgpt-"};
    for (size_t i = 0; i < ARRAY_LEN(old); i++) {
        if (str_starts(model, old[i])) {
            return false;
        }
    }
    return true;
}

static void write_tool(struct jw *w, const struct json *tool)
{
    jw_kstrz(w, "type", "function");
    wire_write_tool_name(w, tool);
    jw_key(w, "parameters");
    wire_write_object(w, json_get(tool, "input_schema"));
    jw_kbool(w, "strict", false);
}

static void write_request(struct jw *w, const struct json *request, struct str model)
{
    struct str system = json_get_text(request, "system");
    wire_write_start(w, model);
    if (!wire_param_given(request, "store")) {
        jw_kbool(w, "store", false);
    }
    if (can_reason(model) && !wire_param_given(request, "include")) {
        jw_kstrs(w, "include", (const char *const[]){"reasoning.encrypted_content"}, 1);
    }
    if (system.n != 0) {
        jw_kstr(w, "instructions", system);
    }
    wire_write_tools(w, request, write_tool);
    jw_karr(w, "input");
    json_foreach_item (message, json_get(request, "messages")) {
        wire_foreach_item(item, json_get(message, "content"))
        {
            write_item(w, message, item);
        }
    }
    jw_end_arr(w);
    wire_write_params(w, request, "max_output_tokens");
}

// ---- the stream -----------------------------------------------------------------------------

/// Take a complete item, unless its deltas brought it already.
static void take_item(struct wire_reply *r, int64_t key, const struct json *item)
{
    struct str type = json_get_text(item, "type");
    if (!wire_reply_fits(r)) {
        return;
    }
    if (str_eqz(type, "message") && wire_reply_find(r, WIRE_TEXT, key) == NULL) {
        json_foreach_item (part, json_get(item, "content")) {
            wire_reply_text(r, key, json_get_text(part, "text"));
            wire_reply_text(r, key, json_get_text(part, "refusal"));
        }
    } else if (str_eqz(type, "function_call") && wire_reply_find(r, WIRE_CALL, key) == NULL) {
        struct wire_item *call = wire_reply_add(r, WIRE_CALL, key);
        call->id = wire_reply_keep(r, json_get_text(item, "call_id"));
        call->name = wire_reply_keep(r, json_get_text(item, "name"));
        wire_reply_append(r, &call->body, json_get_text(item, "arguments"));
    } else if (str_eqz(type, "reasoning") && wire_reply_find(r, WIRE_REASONING, key) == NULL &&
               json_get_text(item, "encrypted_content").n != 0) {
        // without encrypted content only a server that stores the conversation could use it
        const struct json *data = wire_reply_keep_json(r, item);
        wire_reply_seal(r, wire_reply_add(r, WIRE_REASONING, key), wire_responses.kind, data);
    }
}

static void on_text(struct wire_reply *r, const struct json *event)
{
    wire_reply_text(r, json_int(json_get(event, "output_index"), 0), json_get_text(event, "delta"));
}

static void on_reasoning(struct wire_reply *r, const struct json *event)
{
    wire_reply_reasoning(r, json_get_text(event, "delta"));
}

static void on_item(struct wire_reply *r, const struct json *event)
{
    take_item(r, json_int(json_get(event, "output_index"), (int64_t)r->items.n),
              json_get(event, "item"));
}

static void on_completed(struct wire_reply *r, const struct json *event)
{
    static const struct wire_usage_paths paths = {
        "/input_tokens", "/input_tokens_details/cached_tokens", "/output_tokens",
        "/output_tokens_details/reasoning_tokens"};
    const struct json *response = json_get(event, "response");
    if (r->items.n == 0) { // a server that sends everything at the end only
        int64_t key = 0;
        json_foreach_item (item, json_get(response, "output")) {
            take_item(r, key++, item);
        }
    }
    r->usage = wire_usage(json_get(response, "usage"), &paths);
    r->ended = true;
}

static void on_incomplete(struct wire_reply *r, const struct json *event)
{
    struct str why = json_str(json_ptr(event, "/response/incomplete_details/reason"), NULL);
    r->stop_reason = str_eqz(why, "content_filter") ? "refusal" : "max_tokens";
    on_completed(r, event);
}

static void on_failed(struct wire_reply *r, const struct json *event)
{
    wire_reply_fail(r, json_ptr(event, "/response/error"));
}

static void on_error(struct wire_reply *r, const struct json *event)
{
    const struct json *error = json_get(event, "error");
    wire_reply_fail(r, error != NULL ? error : event);
}

static const struct wire_event events[] = {
    {"response.output_text.delta", on_text},
    {"response.refusal.delta", on_text},
    {"response.reasoning_summary_text.delta", on_reasoning},
    {"response.reasoning_text.delta", on_reasoning},
    {"response.output_item.done", on_item},
    {"response.completed", on_completed},
    {"response.incomplete", on_incomplete},
    {"response.failed", on_failed},
    {"error", on_error},
};

static void read_event(struct wire_reply *r, const struct json *event)
{
    bool known = wire_reply_dispatch(r, event, events, ARRAY_LEN(events));
    bool typed = json_get_text(event, "type").n != 0;
    if (!known && !typed && json_get(event, "error") != NULL) {
        on_error(r, event);
    }
}

const struct wire wire_responses = {
    .kind = "openai-responses",
    .write = write_request,
    .event = read_event,
};
