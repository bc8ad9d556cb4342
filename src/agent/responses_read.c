// A client's Responses request as a neutral one.
//
// The API's conversation is a flat list of items; ours is messages that hold items. Neighbours of one side become
// one message: reasoning, text and calls of the assistant, results of tools. What other APIs do not have is
// translated where that loses nothing:
//
//     custom tool (free text)        a function with one text `input`; its calls go back as custom ones
//     namespace of tools             functions named NAMESPACE__NAME; their calls go back with `namespace`
//     reasoning with our seal        the block that its provider made (responses_write.c seals it)
//     developer, system messages     remarks of role system
//
// Tools that the API's own servers run (web_search and the like) are left out: no provider here runs them. What
// would need a stored conversation is refused, because nothing is stored.

#include <assert.h>
#include <stdarg.h>

#include "agent/make.h"
#include "agent/responses.h"
#include "agent/responses_int.h"
#include "agent/wire.h"
#include "base/base64.h"

struct reader {
    struct arena *a;
    const struct json *body;
    const char **param;
    struct err *e;
    struct json *messages;
    struct json *last; // the message that more items of its side join; NULL: none
    size_t room;       // of its content
    struct buf system; // instructions, and remarks before the first message
    uint64_t answers;  // messages of the assistant so far
};

static int refuse(struct reader *r, const char *param, const char *fmt, ...) PRINTF_LIKE(3, 4);
static int refuse(struct reader *r, const char *param, const char *fmt, ...)
{
    va_list args;
    char text[300];
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    *r->param = param;
    return err_set(r->e, ERR_INVALID, "%s", text);
}

static bool is_text(const struct json *v)
{
    return v != NULL && v->type == JSON_STR;
}

static bool is_given(const struct json *v)
{
    return v != NULL && v->type != JSON_NULL;
}

// ---- messages -----------------------------------------------------------------------------------

/// The content of a message of `role` with room for `more` items: the last message's, if it is of that side.
static struct json *join(struct reader *r, const char *role, size_t more)
{
    if (r->last == NULL || !wire_is_role(r->last, role)) {
        make_push(r->messages, make_message(r->a, role, *make_arr(r->a, more)));
        r->last = &r->messages->items[r->messages->n - 1];
        r->room = more;
        r->answers += strcmp(role, "assistant") == 0;
    }
    struct json *content = &r->last->members[1].value;
    if (content->n + more > r->room) {
        r->room = 2 * content->n + more;
        struct json *bigger = make_arr(r->a, r->room);
        memcpy(bigger->items, content->items, content->n * sizeof *content->items);
        content->items = bigger->items;
    }
    return content;
}

/// One part of a message's content; `at` is the item's place in `input`.
static int take_part(struct reader *r, struct json *content, const struct json *part, size_t at)
{
    struct str type = json_get_text(part, "type"), url = json_get_text(part, "image_url");
    if (str_eqz(type, "input_text") || str_eqz(type, "output_text") || str_eqz(type, "text") ||
        str_eqz(type, "refusal")) {
        const char *key = str_eqz(type, "refusal") ? "refusal" : "text";
        make_push(content, make_text(r->a, json_get_text(part, key)));
        return 0;
    }
    if (str_eqz(type, "input_image") && url.n != 0) {
        struct json *item = make_obj(r->a, 2);
        make_put(item, "type", make_strz("image"));
        make_put(item, "url", make_str(url));
        make_push(content, *item);
        return 0;
    }
    return refuse(r, "input", "input[%zu]: content of type '%.*s' is not supported here", at,
                  (int)MIN(type.n, 60), type.p);
}

/// What a developer says before the conversation begins belongs to the instructions.
static int take_instructions(struct reader *r, const struct json *content, size_t at)
{
    wire_foreach_item(part, content)
    {
        if (part->type != JSON_STR && !is_text(json_get(part, "text"))) {
            return refuse(r, "input", "input[%zu]: instructions must be texts", at);
        }
        buf_addz(&r->system, r->system.n != 0 ? "\n\n" : "");
        buf_adds(&r->system, wire_item_text(part));
    }
    return 0;
}

static int take_message(struct reader *r, const struct json *item, size_t at)
{
    struct str role = json_get_text(item, "role");
    const struct json *content = json_get(item, "content");
    bool assistant = str_eqz(role, "assistant");
    bool system = str_eqz(role, "system") || str_eqz(role, "developer");
    if (!assistant && !system && !str_eqz(role, "user")) {
        return refuse(r, "input", "input[%zu]: role must be user, assistant, system or developer",
                      at);
    }
    if (content == NULL || (content->type != JSON_STR && content->type != JSON_ARR)) {
        return refuse(r, "input", "input[%zu]: content must be a text or a list", at);
    }
    if (system && r->messages->n == 0) {
        return take_instructions(r, content, at);
    }
    if (!assistant) {
        r->last = NULL; // what the user says in two messages stays two
    }
    struct json *list = join(r,
                             assistant ? "assistant"
                             : system  ? "system"
                                       : "user",
                             MAX((size_t)content->n, (size_t)1));
    if (content->type == JSON_STR) {
        make_push(list, make_text(r->a, content->s));
    }
    json_foreach_item (part, content) {
        int rc = take_part(r, list, part, at);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

// ---- calls, results, reasoning ------------------------------------------------------------------

static const struct json *parse(struct reader *r, struct str text)
{
    static const struct json_opts opts = {.dup = JSON_DUP_LAST};
    struct json *v = NULL;
    return json_parse(&v, r->a, text, &opts, NULL) == 0 ? v : NULL;
}

static int take_call(struct reader *r, const struct json *item, size_t at)
{
    struct str id = json_get_text(item, "call_id"), name = json_get_text(item, "name");
    bool custom = str_eqz(json_get_text(item, "type"), "custom_tool_call");
    if (id.n == 0 || name.n == 0) {
        return refuse(r, "input", "input[%zu]: a call needs 'call_id' and 'name'", at);
    }
    const struct json *input = custom ? NULL : parse(r, json_get_text(item, "arguments"));
    struct json *call = make_obj(r->a, 4), *wrapped = make_obj(r->a, 1);
    if (custom) {
        make_put(wrapped, RESPONSES_CUSTOM_INPUT, make_str(json_get_text(item, "input")));
    }
    make_put(call, "type", make_strz("tool_call"));
    make_put(call, "id", make_str(id));
    make_put(call, "name",
             make_str(responses__flat_name(r->a, json_get_text(item, "namespace"), name)));
    make_put(call, "input", input != NULL && input->type == JSON_OBJ ? *input : *wrapped);
    make_push(join(r, "assistant", 1), *call);
    return 0;
}

/// What a tool answered: a text, or a list of parts whose texts are joined; pictures cannot go along.
static struct str output_text(struct reader *r, const struct json *output)
{
    struct buf text = {.max = SIZE_MAX};
    if (output == NULL || output->type == JSON_STR) {
        return json_str(output, "");
    }
    json_foreach_item (part, output) {
        struct str one = json_get_text(part, "text");
        bool image = str_eqz(json_get_text(part, "type"), "input_image");
        buf_addz(&text, text.n != 0 ? "\n" : "");
        buf_adds(&text, image ? STR("(an image, which a tool's result cannot hold here)") : one);
    }
    struct str kept = arena_str(r->a, buf_str(&text));
    buf_fini(&text);
    return kept;
}

static int take_result(struct reader *r, const struct json *item, size_t at)
{
    struct str id = json_get_text(item, "call_id");
    if (id.n == 0) {
        return refuse(r, "input", "input[%zu]: a result needs 'call_id'", at);
    }
    struct json *result = make_obj(r->a, 3);
    make_put(result, "type", make_strz("tool_result"));
    make_put(result, "tool_call_id", make_str(id));
    make_put(result, "output", make_str(output_text(r, json_get(item, "output"))));
    make_push(join(r, "tool", 1), *result);
    return 0;
}

/// A block that we sealed goes back to the provider that made it; others mean nothing to any provider here.
static int take_reasoning(struct reader *r, const struct json *item, size_t at)
{
    struct str seal = json_get_text(item, "encrypted_content");
    struct buf text = {.max = SIZE_MAX};
    (void)at;
    if (!str_starts(seal, RESPONSES_SEAL)) {
        return 0;
    }
    bool fits = base64_decode(&text, str_from(seal, strlen(RESPONSES_SEAL)));
    const struct json *block = fits ? parse(r, arena_str(r->a, buf_str(&text))) : NULL;
    buf_fini(&text);
    if (wire_item_type(block) == WIRE_REASONING && json_get_text(block, "kind").n != 0) {
        make_push(join(r, "assistant", 1), *block);
    }
    return 0;
}

static int skip(struct reader *r, const struct json *item, size_t at)
{
    (void)r;
    (void)item;
    (void)at;
    return 0;
}

static const struct {
    const char *type;
    int (*take)(struct reader *r, const struct json *item, size_t at);
} items[] = {
    {"message", take_message},
    {"function_call", take_call},
    {"custom_tool_call", take_call},
    {"function_call_output", take_result},
    {"custom_tool_call_output", take_result},
    {"reasoning", take_reasoning},
    // what the API's own servers did
    {"web_search_call", skip},
    {"file_search_call", skip},
    {"image_generation_call", skip},
    {"code_interpreter_call", skip},
    {"mcp_list_tools", skip},
    {"mcp_call", skip},
};

static int take_item(struct reader *r, const struct json *item, size_t at)
{
    struct str type = json_get_text(item, "type");
    if (type.n == 0 && json_get(item, "role") != NULL) {
        type = STR("message");
    }
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        if (str_eqz(type, items[i].type)) {
            return items[i].take(r, item, at);
        }
    }
    return refuse(r, "input", "input[%zu]: items of type '%.*s' are not supported here", at,
                  (int)MIN(type.n, 60), type.p);
}

static int take_input(struct reader *r)
{
    const struct json *input = json_get(r->body, "input");
    if (is_text(input)) {
        r->messages = make_arr(r->a, 1);
        make_push(join(r, "user", 1), make_text(r->a, input->s));
        return 0;
    }
    if (input == NULL || input->type != JSON_ARR || input->n == 0) {
        return refuse(r, "input", "'input' must be a text or a list with at least one item");
    }
    r->messages = make_arr(r->a, input->n);
    for (size_t i = 0; i < input->n; i++) {
        int rc = take_item(r, &input->items[i], i);
        if (rc != 0) {
            return rc;
        }
    }
    return r->messages->n != 0 ? 0 : refuse(r, "input", "'input' holds no message");
}

// ---- tools --------------------------------------------------------------------------------------

struct str responses__flat_name(struct arena *a, struct str space, struct str name)
{
    return space.n == 0
               ? name
               : str_of(arena_printf(a, STR_FMT "__" STR_FMT, STR_ARG(space), STR_ARG(name)));
}

/// A custom tool takes one text, whose form its description tells.
static void put_custom(struct reader *r, struct json *out, const struct json *tool)
{
    struct str text = json_get_text(tool, "description");
    struct str grammar = json_get_text(json_get(tool, "format"), "definition");
    const struct json *schema =
        parse(r, STR("{\"type\":\"object\",\"properties\":{\"" RESPONSES_CUSTOM_INPUT
                     "\":{\"type\":\"string\"}},\"required\":[\"" RESPONSES_CUSTOM_INPUT "\"]}"));
    assert(schema != NULL);
    if (grammar.n != 0) {
        text = str_of(arena_printf(
            r->a, STR_FMT "\n\n`" RESPONSES_CUSTOM_INPUT "` must match this grammar:\n" STR_FMT,
            STR_ARG(text), STR_ARG(grammar)));
    }
    make_put(out, "description", make_str(text));
    make_put(out, "input_schema", *schema);
}

static int take_tool(struct reader *r, struct json *list, struct str space, const struct json *tool)
{
    struct str type = json_get_text(tool, "type"), name = json_get_text(tool, "name");
    bool custom = str_eqz(type, "custom");
    if (!custom && !str_eqz(type, "function")) {
        return 0; // run by the API's own servers
    }
    if (name.n == 0) {
        return refuse(r, "tools", "each tool needs a 'name'");
    }
    const struct json *schema = json_get(tool, "parameters");
    struct json *out = make_obj(r->a, 3);
    make_put(out, "name", make_str(responses__flat_name(r->a, space, name)));
    if (custom) {
        put_custom(r, out, tool);
    } else {
        make_put(out, "description", make_str(json_get_text(tool, "description")));
    }
    if (!custom && schema != NULL && schema->type == JSON_OBJ) {
        make_put(out, "input_schema", *schema);
    }
    make_push(list, *out);
    return 0;
}

static int take_tools(struct reader *r, struct json **out)
{
    const struct json *tools = json_get(r->body, "tools");
    size_t n = 0;
    int rc = 0;
    json_foreach_item (tool, tools) {
        const struct json *inner = json_get(tool, "tools");
        n += 1 + (inner != NULL ? inner->n : 0);
    }
    *out = make_arr(r->a, n);
    for (const struct json *t = json_items(tools), *end = json_items_end(tools); t < end && rc == 0;
         t++) {
        bool space = str_eqz(json_get_text(t, "type"), "namespace");
        const struct json *at = space ? json_items(json_get(t, "tools")) : t;
        const struct json *to = space ? json_items_end(json_get(t, "tools")) : t + 1;
        for (; at < to && rc == 0; at++) {
            rc = take_tool(r, *out, space ? json_get_text(t, "name") : STR_NULL, at);
        }
    }
    return rc;
}

// ---- parameters ---------------------------------------------------------------------------------

/// Members of the request that are not parameters of the model.
static const char *const ours[] = {
    "model",       "input",        "instructions",         "tools",
    "stream",      "conversation", "previous_response_id", "background",
    "tool_choice", "prompt",       "max_output_tokens",    "client_metadata"};

static void put_choice_chat(struct reader *r, struct json *params, const struct json *choice,
                            struct str name)
{
    struct json *out = make_obj(r->a, 2), *function = make_obj(r->a, 1);
    make_put(function, "name", make_str(name));
    make_put(out, "type", make_strz("function"));
    make_put(out, "function", *function);
    if (name.n != 0 || choice->type == JSON_STR) {
        make_put(params, "tool_choice", name.n != 0 ? *out : *choice);
    }
}

static void put_choice_anthropic(struct reader *r, struct json *params, const struct json *choice,
                                 struct str name)
{
    struct str word = json_str(choice, "auto");
    const struct json *parallel = json_get(r->body, "parallel_tool_calls");
    struct json *out = make_obj(r->a, 3);
    make_put(out, "type",
             make_strz(name.n != 0                 ? "tool"
                       : str_eqz(word, "required") ? "any"
                       : str_eqz(word, "none")     ? "none"
                                                   : "auto"));
    if (name.n != 0) {
        make_put(out, "name", make_str(name));
    }
    if (!json_bool(parallel, true) && !str_eqz(word, "none")) {
        make_put(out, "disable_parallel_tool_use", make_bool(true));
    }
    make_put(params, "tool_choice", *out);
}

static void put_choice_responses(struct reader *r, struct json *params, const struct json *choice,
                                 struct str name)
{
    struct json *out = make_obj(r->a, 2);
    make_put(out, "type", make_strz("function"));
    make_put(out, "name", make_str(name));
    make_put(params, "tool_choice", name.n != 0 ? *out : *choice);
}

static void put_chat(struct reader *r, struct json *params)
{
    static const char *const same[] = {"temperature", "top_p", "parallel_tool_calls"};
    const struct json *effort = json_ptr(r->body, "/reasoning/effort");
    const struct json *format = json_ptr(r->body, "/text/format");
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        const struct json *v = json_get(r->body, same[i]);
        if (is_given(v)) {
            make_put(params, same[i], *v);
        }
    }
    if (is_given(effort)) {
        make_put(params, "reasoning_effort", *effort);
    }
    struct str type = json_get_text(format, "type");
    if (str_eqz(type, "json_object")) {
        make_put(params, "response_format", *format);
    } else if (str_eqz(type, "json_schema")) { // the same members, one level deeper
        struct json *outer = make_obj(r->a, 2), *inner = make_obj(r->a, format->n);
        json_foreach_member (m, format) {
            if (!str_eqz(m->key, "type")) {
                inner->members[inner->n++] = *m;
            }
        }
        make_put(outer, "type", make_strz("json_schema"));
        make_put(outer, "json_schema", *inner);
        make_put(params, "response_format", *outer);
    }
}

static void put_anthropic(struct reader *r, struct json *params)
{
    const struct json *temperature = json_get(r->body, "temperature");
    const struct json *top_p = json_get(r->body, "top_p");
    if (is_given(temperature)) { // the API takes one of the two
        make_put(params, "temperature", *temperature);
    } else if (is_given(top_p)) {
        make_put(params, "top_p", *top_p);
    }
}

static void put_all(struct reader *r, struct json *params)
{
    json_foreach_member (m, r->body) {
        if (str_lookup(m->key, ours, ARRAY_LEN(ours)) < 0 && is_given(&m->value)) {
            params->members[params->n++] = *m;
        }
    }
}

/// What a provider of some kind understands of the request's parameters; the last row is for all others.
static const struct {
    const char *kind;
    void (*put)(struct reader *r, struct json *params);
    /// `name` is that of the function that `choice` demands; empty: it demands none.
    void (*put_choice)(struct reader *r, struct json *params, const struct json *choice,
                       struct str name);
} kinds[] = {
    {"openai-chat", put_chat, put_choice_chat},
    {"anthropic", put_anthropic, put_choice_anthropic},
    {NULL, put_all, put_choice_responses},
};

static const struct json *take_params(struct reader *r, const char *kind, bool has_tools)
{
    const struct json *limit = json_get(r->body, "max_output_tokens");
    const struct json *choice = json_get(r->body, "tool_choice");
    struct json *params = make_obj(r->a, r->body->n + 4);
    size_t i = 0;
    while (kinds[i].kind != NULL && strcmp(kinds[i].kind, kind) != 0) {
        i++;
    }
    kinds[i].put(r, params);
    if (is_given(limit)) {
        make_put(params, "max_tokens", *limit);
    }
    if (has_tools && is_given(choice)) { // APIs refuse a choice where there is nothing to choose
        struct str name = responses__flat_name(r->a, json_get_text(choice, "namespace"),
                                               json_get_text(choice, "name"));
        kinds[i].put_choice(r, params, choice, name);
    }
    return params;
}

// ---- the request --------------------------------------------------------------------------------

static int check(struct reader *r)
{
    static const char *const stored[] = {"previous_response_id", "conversation", "prompt"};
    const struct json *instructions = json_get(r->body, "instructions");
    for (size_t i = 0; i < ARRAY_LEN(stored); i++) {
        if (is_given(json_get(r->body, stored[i]))) {
            return refuse(r, stored[i],
                          "'%s' is not supported: responses are not stored, send the whole "
                          "conversation in 'input'",
                          stored[i]);
        }
    }
    if (json_bool(json_get(r->body, "background"), false)) {
        return refuse(r, "background", "'background' is not supported");
    }
    if (is_given(instructions) && instructions->type != JSON_STR) {
        return refuse(r, "instructions", "'instructions' must be a text");
    }
    return 0;
}

static int read_request(struct reader *r, struct responses_request *out, const char *kind)
{
    struct json *tools = NULL, *request = make_obj(r->a, 4);
    int rc;
    buf_adds(&r->system, json_get_text(r->body, "instructions"));
    if ((rc = check(r)) != 0 || (rc = take_input(r)) != 0 || (rc = take_tools(r, &tools)) != 0) {
        return rc;
    }
    make_put(request, "system", make_str(arena_str(r->a, buf_str(&r->system))));
    make_put(request, "messages", *r->messages);
    make_put(request, "tools", *tools);
    make_put(request, "params", *take_params(r, kind, tools->n != 0));
    *out = (struct responses_request){
        .request = request,
        .tools = json_get(r->body, "tools"),
        .n = r->answers + 1,
        .stream = json_bool(json_get(r->body, "stream"), false),
    };
    return 0;
}

int responses_read(struct responses_request *out, struct arena *a, const struct json *body,
                   const char *kind, const char **param, struct err *e)
{
    struct err own;
    struct reader r = {.a = a, .body = body, .param = param, .e = e != NULL ? e : &own};
    *param = NULL;
    buf_init(&r.system, SIZE_MAX);
    int rc = read_request(&r, out, kind);
    buf_fini(&r.system);
    return rc;
}
