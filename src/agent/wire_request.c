// The neutral request: its check, and the parts that all writers share.
//
// A request passes the hooks of plugins before it comes here, so it may be anything. It is checked
// once, as a whole; after that the writers rely on its form.

#include "agent/wire.h"

static const char *const type_names[WIRE_ITEM__COUNT] = {
    [WIRE_TEXT] = "text",           [WIRE_CALL] = "tool_call", [WIRE_RESULT] = "tool_result",
    [WIRE_REASONING] = "reasoning", [WIRE_IMAGE] = "image",
};

// The texts that an item needs besides its type; NULL ends the list.
static const char *const type_needs[WIRE_ITEM__COUNT][3] = {
    [WIRE_TEXT] = {"text"},      [WIRE_CALL] = {"id", "name"}, [WIRE_RESULT] = {"tool_call_id"},
    [WIRE_REASONING] = {"kind"}, [WIRE_IMAGE] = {"url"},
};

static const char *const roles[] = {"user", "assistant", "tool", "system"};

static bool is_str(const struct json *v)
{
    return v != NULL && v->type == JSON_STR;
}

static bool is_absent_or(const struct json *v, enum json_type type)
{
    return v == NULL || v->type == JSON_NULL || v->type == type;
}

static int check_item(const struct json *item, size_t message, struct err *e)
{
    if (is_str(item)) {
        return 0;
    }
    enum wire_item_type type = wire_item_type(item);
    if (type == WIRE_ITEM__COUNT) {
        return err_set(e, ERR_INVALID, "messages[%zu]: content of unknown type '" STR_FMT "'",
                       message, STR_ARG(json_get_text(item, "type")));
    }
    for (const char *const *need = type_needs[type]; *need != NULL; need++) {
        if (!is_str(json_get(item, *need))) {
            return err_set(e, ERR_INVALID, "messages[%zu]: %s %s needs a text '%s'", message,
                           type == WIRE_IMAGE ? "an" : "a", type_names[type], *need);
        }
    }
    return 0;
}

static int check_message(const struct json *message, size_t at, struct err *e)
{
    const struct json *content = json_get(message, "content");
    struct str role = json_get_text(message, "role");
    if (str_lookup(role, roles, ARRAY_LEN(roles)) < 0) {
        return err_set(e, ERR_INVALID,
                       "messages[%zu]: role must be user, assistant, tool or system", at);
    }
    if (content == NULL || (content->type != JSON_STR && content->type != JSON_ARR)) {
        return err_set(e, ERR_INVALID, "messages[%zu]: content must be a text or a list", at);
    }
    wire_foreach_item(item, content)
    {
        int rc = check_item(item, at, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int wire_check(const struct json *request, struct err *e)
{
    const struct json *messages = json_get(request, "messages"),
                      *tools = json_get(request, "tools");
    if (messages == NULL || messages->type != JSON_ARR || messages->n == 0) {
        return err_set(e, ERR_INVALID, "messages must be a list with at least one message");
    }
    if (!is_absent_or(json_get(request, "model"), JSON_STR) ||
        !is_absent_or(json_get(request, "system"), JSON_STR)) {
        return err_set(e, ERR_INVALID, "model and system must be texts");
    }
    if (!is_absent_or(json_get(request, "params"), JSON_OBJ)) {
        return err_set(e, ERR_INVALID, "params must be an object");
    }
    for (uint32_t i = 0; i < messages->n; i++) {
        int rc = check_message(&messages->items[i], i, e);
        if (rc != 0) {
            return rc;
        }
    }
    if (!is_absent_or(tools, JSON_ARR)) {
        return err_set(e, ERR_INVALID, "tools must be a list");
    }
    json_foreach_item (tool, tools) {
        if (!is_str(json_get(tool, "name"))) {
            return err_set(e, ERR_INVALID, "tools: each needs a text 'name'");
        }
    }
    return 0;
}

const struct json *wire_items(const struct json *content)
{
    return is_str(content) ? content : json_items(content);
}

const struct json *wire_items_end(const struct json *content)
{
    return is_str(content) ? content + 1 : json_items_end(content);
}

enum wire_item_type wire_item_type(const struct json *item)
{
    struct str name = is_str(item) ? STR("text") : json_get_text(item, "type");
    ptrdiff_t type = str_lookup(name, type_names, WIRE_ITEM__COUNT);
    return type >= 0 ? (enum wire_item_type)type : WIRE_ITEM__COUNT;
}

struct str wire_item_text(const struct json *item)
{
    return is_str(item) ? item->s : json_get_text(item, "text");
}

const struct json *wire_item_reasoning(const struct json *item, const char *kind)
{
    return str_eqz(json_get_text(item, "kind"), kind) ? json_get(item, "data") : NULL;
}

bool wire_is_role(const struct json *message, const char *role)
{
    return str_eqz(json_get_text(message, "role"), role);
}

bool wire_has_item(const struct json *message, enum wire_item_type type)
{
    wire_foreach_item(item, json_get(message, "content"))
    {
        if (wire_item_type(item) == type && (type != WIRE_TEXT || wire_item_text(item).n != 0)) {
            return true;
        }
    }
    return false;
}

void wire_write_as_text(struct jw *w, const struct json *v)
{
    if (v == NULL || v->type == JSON_NULL) {
        jw_strz(w, "");
    } else if (v->type == JSON_STR) {
        jw_str(w, v->s);
    } else {
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, v, 0);
        jw_str(w, buf_str(&text));
        buf_fini(&text);
    }
}

void wire_write_arguments(struct jw *w, const struct json *call)
{
    const struct json *input = json_get(call, "input");
    jw_key(w, "arguments");
    if (input != NULL && input->type == JSON_OBJ) {
        wire_write_as_text(w, input);
    } else {
        jw_strz(w, "{}");
    }
}

void wire_write_object(struct jw *w, const struct json *v)
{
    if (v != NULL && v->type == JSON_OBJ) {
        jw_value(w, v);
    } else {
        jw_obj(w);
        jw_end_obj(w);
    }
}

bool wire_param_given(const struct json *request, const char *name)
{
    return json_get(json_get(request, "params"), name) != NULL;
}

void wire_write_start(struct jw *w, struct str model)
{
    jw_kstr(w, "model", model);
    jw_kbool(w, "stream", true);
}

void wire_write_tools(struct jw *w, const struct json *request,
                      void (*write)(struct jw *w, const struct json *tool))
{
    const struct json *tools = json_get(request, "tools");
    if (json_items(tools) == json_items_end(tools)) {
        return;
    }
    jw_karr(w, "tools");
    json_foreach_item (tool, tools) {
        jw_obj(w);
        write(w, tool);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

void wire_write_tool_name(struct jw *w, const struct json *tool)
{
    jw_kstr(w, "name", json_get(tool, "name")->s);
    jw_kstr(w, "description", json_get_text(tool, "description"));
}

void wire_write_params(struct jw *w, const struct json *request, const char *max_tokens_name)
{
    json_foreach_member (m, json_get(request, "params")) {
        bool limit = str_eqz(m->key, "max_tokens");
        jw_key_str(w, limit ? str_of(max_tokens_name) : m->key);
        jw_value(w, &m->value);
    }
}

void wire_write(const struct wire *wire, struct buf *out, const struct json *request,
                struct str model)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    wire->write(&w, request, model);
    jw_end_obj(&w);
}
