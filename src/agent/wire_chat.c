// openai-chat: POST {base_url}/chat/completions, what most other servers speak.
//
// A message has one text and, if it is the assistant's, its calls. Each result is a message of its own; results must
// follow the calls before any other message. The API has no field for reasoning to go back, so it is left out.
//
// In the stream a call comes in pieces, numbered by `index`: id and name in the first, the arguments in all. Servers
// differ: some leave out the index, repeat names, send arguments as an object, or end without `[DONE]`; a
// finish_reason and a clean end of the stream are enough.

#include "agent/wire.h"

// ---- the request ----------------------------------------------------------------------------

static void write_results(struct jw *w, const struct json *message)
{
    wire_foreach_item(item, json_get(message, "content"))
    {
        if (wire_item_type(item) == WIRE_RESULT) {
            jw_obj(w);
            jw_kstrz(w, "role", "tool");
            jw_kstr(w, "tool_call_id", json_get(item, "tool_call_id")->s);
            jw_key(w, "content");
            wire_write_as_text(w, json_get(item, "output"));
            jw_end_obj(w);
        }
    }
}

static void write_calls(struct jw *w, const struct json *message)
{
    jw_karr(w, "tool_calls");
    wire_foreach_item(item, json_get(message, "content"))
    {
        if (wire_item_type(item) == WIRE_CALL) {
            jw_obj(w);
            jw_kstr(w, "id", json_get(item, "id")->s);
            jw_kstrz(w, "type", "function");
            jw_kobj(w, "function");
            jw_kstr(w, "name", json_get(item, "name")->s);
            wire_write_arguments(w, item);
            jw_end_obj(w);
            jw_end_obj(w);
        }
    }
    jw_end_arr(w);
}

static void write_texts(struct jw *w, const struct json *message)
{
    struct buf text = {.max = SIZE_MAX};
    wire_foreach_item(item, json_get(message, "content"))
    {
        if (wire_item_type(item) == WIRE_TEXT) {
            buf_adds(&text, wire_item_text(item));
        }
    }
    jw_kstr(w, "content", buf_str(&text));
    buf_fini(&text);
}

/// Texts and pictures, as a list of parts.
static void write_parts(struct jw *w, const struct json *message)
{
    jw_karr(w, "content");
    wire_foreach_item(item, json_get(message, "content"))
    {
        bool image = wire_item_type(item) == WIRE_IMAGE;
        if (!image && (wire_item_type(item) != WIRE_TEXT || wire_item_text(item).n == 0)) {
            continue;
        }
        jw_obj(w);
        jw_kstrz(w, "type", image ? "image_url" : "text");
        if (image) {
            jw_kobj(w, "image_url");
            jw_kstr(w, "url", json_get(item, "url")->s);
            jw_end_obj(w);
        } else {
            jw_kstr(w, "text", wire_item_text(item));
        }
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

static void write_message(struct jw *w, const struct json *message)
{
    bool image = wire_is_role(message, "user") && wire_has_item(message, WIRE_IMAGE);
    bool text = wire_has_item(message, WIRE_TEXT);
    bool calls = wire_has_item(message, WIRE_CALL);
    bool assistant = wire_is_role(message, "assistant");
    if (!text && !calls && !image) {
        return;
    }
    jw_obj(w);
    jw_kstrz(w, "role",
             assistant                         ? "assistant"
             : wire_is_role(message, "system") ? "system"
                                               : "user");
    if (image) {
        write_parts(w, message);
    } else if (text) {
        write_texts(w, message);
    } else {
        jw_kstrz(w, "content", NULL);
    }
    if (calls) {
        write_calls(w, message);
    }
    jw_end_obj(w);
}

static void write_messages(struct jw *w, const struct json *request)
{
    struct str system = json_get_text(request, "system");
    const struct json *messages = json_get(request, "messages");
    const struct json *end = json_items_end(messages);
    jw_karr(w, "messages");
    if (system.n != 0) {
        jw_obj(w);
        jw_kstrz(w, "role", "system");
        jw_kstr(w, "content", system);
        jw_end_obj(w);
    }
    for (const struct json *at = json_items(messages); at < end;) {
        const struct json *next = at; // message of the assistant, or the end
        while (next < end && !wire_is_role(next, "assistant")) {
            write_results(w, next++); // first, right after their calls
        }
        for (; at <= next && at < end; at++) {
            write_message(w, at);
        }
    }
    jw_end_arr(w);
}

static void write_tool(struct jw *w, const struct json *tool)
{
    jw_kstrz(w, "type", "function");
    jw_kobj(w, "function");
    wire_write_tool_name(w, tool);
    jw_key(w, "parameters");
    wire_write_object(w, json_get(tool, "input_schema"));
    jw_end_obj(w);
}

static void write_request(struct jw *w, const struct json *request, struct str model)
{
    wire_write_start(w, model);
    if (!wire_param_given(request, "stream_options")) {
        jw_kobj(w, "stream_options");
        jw_kbool(w, "include_usage", true);
        jw_end_obj(w);
    }
    write_messages(w, request);
    wire_write_tools(w, request, write_tool);
    wire_write_params(w, request, "max_tokens");
}

// ---- the stream -----------------------------------------------------------------------------

// The call that a piece belongs to. Another id under the same index begins a new call.
static struct wire_item *find_call(struct wire_reply *r, int64_t key, struct str id)
{
    struct wire_item *call = wire_reply_find(r, WIRE_CALL, key);
    if (call != NULL && (id.n == 0 || call->id.n == 0 || str_eq(call->id, id))) {
        return call;
    }
    return wire_reply_add(r, WIRE_CALL, key);
}

static void take_arguments(struct wire_reply *r, struct wire_item *call, const struct json *v)
{
    if (v != NULL && v->type == JSON_OBJ) {
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, v, 0);
        wire_reply_append(r, &call->body, buf_str(&text));
        buf_fini(&text);
    } else {
        wire_reply_append(r, &call->body, json_str(v, NULL));
    }
}

static void take_delta(struct wire_reply *r, const struct json *delta)
{
    struct str reasoning = json_get_text(delta, "reasoning_content");
    if (reasoning.n == 0) {
        reasoning = json_get_text(delta, "reasoning");
    }
    wire_reply_reasoning(r, reasoning);
    wire_reply_text(r, 0, json_get_text(delta, "content"));
    wire_reply_text(r, 0, json_get_text(delta, "refusal"));
    json_foreach_item (piece, json_get(delta, "tool_calls")) {
        if (wire_reply_fits(r)) {
            const struct json *function = json_get(piece, "function");
            struct str id = json_get_text(piece, "id");
            struct wire_item *call = find_call(r, json_int(json_get(piece, "index"), 0), id);
            if (call->id.n == 0) {
                call->id = wire_reply_keep(r, id);
            }
            if (call->name.n == 0) {
                call->name = wire_reply_keep(r, json_get_text(function, "name"));
            }
            take_arguments(r, call, json_get(function, "arguments"));
        }
    }
}

static void read_event(struct wire_reply *r, const struct json *event)
{
    static const struct wire_reason reasons[] = {{"length", "max_tokens"},
                                                 {"content_filter", "refusal"}};
    static const struct wire_usage_paths paths = {
        "/prompt_tokens", "/prompt_tokens_details/cached_tokens", "/completion_tokens",
        "/completion_tokens_details/reasoning_tokens"};
    const struct json *error = json_get(event, "error");
    const struct json *usage = json_get(event, "usage");
    const struct json *choice = json_at(json_get(event, "choices"), 0);
    if (error != NULL && error->type != JSON_NULL) {
        wire_reply_fail(r, error);
        return;
    }
    if (usage != NULL && usage->type == JSON_OBJ) {
        r->usage = wire_usage(usage, &paths);
    }
    take_delta(r, json_get(choice, "delta"));
    wire_reply_stop(r, json_get_text(choice, "finish_reason"), reasons, ARRAY_LEN(reasons));
}

const struct wire wire_chat = {
    .kind = "openai-chat",
    .done_marker = true,
    .write = write_request,
    .event = read_event,
};
