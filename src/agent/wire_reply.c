// The answer under construction, whatever format it comes in.
//
// The formats cut an answer into events in different ways, but an answer is the same in all of them: texts,
// calls of tools and blocks of reasoning, in an order that must be kept when they go back. Texts are joined in
// one buffer, and an item knows its part of it, so nothing is kept twice.
//
//     events ──> wire_<format>.c ──> items, text ──> wire_reply_finish() ──> response
//
// Invariants:
//   - memory is bounded whatever the server sends: PROVIDER_TEXT_MAX of text (the rest goes to on_delta and is
//     not kept), KEPT_MAX of everything else, ITEMS_MAX items.
//   - on_delta gets the pieces in the order in which they came, each once.

#include <assert.h>

#include "agent/make.h"
#include "agent/wire.h"
#include "base/utf8.h"

enum {
    ITEMS_MAX = 1024,
    KEPT_MAX = 16 * 1024 * 1024,
    FAULT_MAX = 8 * 1024, // of an error message, in which provider_fault.c searches for words
    TOKENS_MAX = 1000 * 1000 * 1000,
};

static void tell(struct wire_reply *r, struct provider_delta d)
{
    if (d.text.n + d.reasoning.n != 0 || d.sealed != NULL) {
        r->on_delta(r->arg, &d);
    }
}

/// A block of reasoning as it goes back to the API that made it.
static struct json *make_sealed(struct arena *a, const char *kind, const struct json *data)
{
    struct json *out = make_obj(a, 3);
    make_put(out, "type", make_strz("reasoning"));
    make_put(out, "kind", make_strz(kind));
    make_put(out, "data", *data);
    return out;
}

// ---- finishing ------------------------------------------------------------------------------

// Parse what the model wrote as input: an object, nothing at all, or a mistake, which `bad_input` explains.
static void read_input(struct wire_reply *r, struct wire_item *item, struct provider_tool_call *out)
{
    // what holds an input later, a request or a line of a journal, must not be too deep to be read
    static const struct json_opts opts = {.max_depth = JSON_DEPTH / 2, .dup = JSON_DUP_LAST};
    struct json *v = NULL;
    struct err e;
    out->input = make_obj(&r->arena, 0);
    out->raw = buf_str(&item->body);
    if (str_trim(buf_str(&item->body)).n == 0) {
        return;
    }
    if (json_parse(&v, &r->arena, buf_str(&item->body), &opts, &e) != 0) {
        out->bad_input = arena_printf(&r->arena, "the input is not JSON: %s", e.msg);
    } else if (v->type != JSON_OBJ) {
        out->bad_input = arena_printf(&r->arena, "the input is of type %s and must be an object",
                                      json_type_name(v));
    } else {
        out->input = v;
    }
}

/// The item as it goes back to the model.
static struct json finish_item(struct wire_reply *r, struct wire_item *item, const char *kind)
{
    struct json *out = make_obj(&r->arena, 4);
    if (item->type == WIRE_TEXT) {
        *out = make_text(&r->arena, (struct str){buf_z(&r->text) + item->at, item->n});
    } else if (item->type == WIRE_REASONING) {
        out = make_sealed(&r->arena, kind, item->data);
    } else {
        if (item->id.n == 0) {
            item->id = str_of(
                arena_printf(&r->arena, "call_%llu_%zu", (unsigned long long)r->n, r->calls.n + 1));
        }
        struct provider_tool_call call = {.id = item->id, .name = item->name};
        read_input(r, item, &call);
        vec_push(&r->calls, call);
        make_put(out, "type", make_strz("tool_call"));
        make_put(out, "id", make_str(call.id));
        make_put(out, "name", make_str(call.name));
        make_put(out, "input", *call.input);
    }
    return *out;
}

// ---- building -------------------------------------------------------------------------------

void wire_reply_init(struct wire_reply *r, wire_delta_fn *on_delta, void *arg)
{
    *r = (struct wire_reply){.on_delta = on_delta, .arg = arg};
    r->usage = (struct provider_usage){-1, -1, -1, -1};
    buf_init(&r->text, PROVIDER_TEXT_MAX);
}

void wire_reply_fini(struct wire_reply *r)
{
    vec_foreach (item, &r->items) {
        buf_fini(&item->body);
        buf_fini(&item->seal);
    }
    vec_fini(&r->items);
    vec_fini(&r->calls);
    buf_fini(&r->text);
    arena_fini(&r->scratch);
    arena_fini(&r->arena);
}

void wire_reply_text(struct wire_reply *r, int64_t key, struct str text)
{
    if (text.n == 0 || !wire_reply_fits(r)) {
        return;
    }
    struct wire_item *item = r->items.n != 0 ? vec_last(&r->items) : NULL;
    if (item == NULL || item->type != WIRE_TEXT || item->key != key) {
        item = wire_reply_add(r, WIRE_TEXT, key);
    }
    size_t room = r->left_out != 0 ? 0 : r->text.max - r->text.n;
    size_t n = room >= text.n ? text.n : utf8_cut(text.p, text.n, room);
    if (item->n == 0) {
        item->at = r->text.n;
    }
    buf_add(&r->text, text.p, n);
    item->n += n;
    assert(item->at + item->n == r->text.n || n == 0); // pieces of a text follow each other
    r->left_out += text.n - n;
    tell(r, (struct provider_delta){.text = text});
}

void wire_reply_reasoning(struct wire_reply *r, struct str text)
{
    tell(r, (struct provider_delta){.reasoning = text});
}

struct wire_item *wire_reply_add(struct wire_reply *r, enum wire_item_type type, int64_t key)
{
    struct wire_item item = {.type = type, .key = key, .at = r->text.n};
    assert(r->on_delta != NULL);
    buf_init(&item.body, KEPT_MAX);
    buf_init(&item.seal, KEPT_MAX);
    vec_push(&r->items, item);
    return vec_last(&r->items);
}

struct wire_item *wire_reply_find(struct wire_reply *r, enum wire_item_type type, int64_t key)
{
    for (size_t i = r->items.n; i-- > 0;) {
        if (r->items.p[i].type == type && r->items.p[i].key == key) {
            return &r->items.p[i];
        }
    }
    return NULL;
}

struct str wire_reply_keep(struct wire_reply *r, struct str s)
{
    r->kept += s.n;
    return wire_reply_fits(r) ? arena_str(&r->arena, s) : STR_NULL;
}

const struct json *wire_reply_keep_json(struct wire_reply *r, const struct json *v)
{
    struct buf text = {.max = KEPT_MAX};
    struct json *copy = NULL;
    json_write(&text, v, 0);
    struct str kept = wire_reply_keep(r, buf_str(&text));
    if (buf_ok(&text) && json_parse(&copy, &r->arena, kept, NULL, NULL) != 0) {
        copy = NULL; // past the bounds, which wire_reply_fits() tells
    }
    buf_fini(&text);
    return copy;
}

void wire_reply_append(struct wire_reply *r, struct buf *b, struct str s)
{
    r->kept += s.n;
    if (wire_reply_fits(r)) {
        buf_adds(b, s);
    }
}

void wire_reply_seal(struct wire_reply *r, struct wire_item *item, const char *kind,
                     const struct json *data)
{
    item->data = data;
    if (data != NULL) {
        tell(r, (struct provider_delta){.sealed = make_sealed(&r->scratch, kind, data)});
    }
}

int64_t wire_tokens(const struct json *v)
{
    int64_t n = json_int(v, -1);
    return n >= 0 && n <= TOKENS_MAX ? n : -1;
}

struct provider_usage wire_usage(const struct json *usage, const struct wire_usage_paths *at)
{
    return (struct provider_usage){.input = wire_tokens(json_ptr(usage, at->input)),
                                   .cached = wire_tokens(json_ptr(usage, at->cached)),
                                   .output = wire_tokens(json_ptr(usage, at->output)),
                                   .reasoning = wire_tokens(json_ptr(usage, at->reasoning))};
}

void wire_reply_stop(struct wire_reply *r, struct str reason, const struct wire_reason *rows,
                     size_t n)
{
    r->finished = r->finished || reason.n != 0;
    for (size_t i = 0; i < n; i++) {
        if (str_eqz(reason, rows[i].theirs)) {
            r->stop_reason = rows[i].ours;
        }
    }
}

void wire_reply_fail(struct wire_reply *r, const struct json *error)
{
    struct str text = json_str(error, NULL);
    const struct json *code = json_get(error, "code");
    r->failed = true;
    text = text.n != 0 ? text : json_get_text(error, "message");
    text.n = MIN(text.n, (size_t)FAULT_MAX);
    r->fault.message = wire_reply_keep(r, text);
    r->fault.type = wire_reply_keep(r, json_get_text(error, "type"));
    r->fault.code = wire_reply_keep(r, json_str(code, NULL));
    if (code != NULL && code->type == JSON_INT) {
        r->fault.code = str_of(arena_printf(&r->arena, "%lld", (long long)code->i));
    }
}

bool wire_reply_fits(const struct wire_reply *r)
{
    return r->kept <= KEPT_MAX && r->items.n <= ITEMS_MAX;
}

bool wire_reply_dispatch(struct wire_reply *r, const struct json *event,
                         const struct wire_event *rows, size_t n)
{
    struct str type = json_get_text(event, "type");
    for (size_t i = 0; i < n; i++) {
        if (str_eqz(type, rows[i].type)) {
            rows[i].take(r, event);
            return true;
        }
    }
    return false;
}

void wire_reply_finish(struct wire_reply *r, const char *kind, struct provider_response *out)
{
    struct json *content = make_arr(&r->arena, r->items.n);
    vec_foreach (item, &r->items) {
        bool empty = item->type == WIRE_TEXT        ? item->n == 0
                     : item->type == WIRE_REASONING ? item->data == NULL
                                                    : false;
        if (!empty) {
            make_push(content, finish_item(r, item, kind));
        }
    }
    const char *natural = r->calls.n != 0 ? "tool_use" : "end_turn";
    *out = (struct provider_response){
        .text = buf_str(&r->text),
        .text_left_out = r->left_out,
        .content = *content,
        .tool_calls = r->calls.p,
        .n_tool_calls = r->calls.n,
        .usage = r->usage,
        .stop_reason = r->stop_reason != NULL ? r->stop_reason : natural,
    };
}

int wire_event(const struct wire *wire, struct wire_reply *r, const struct sse_event *ev,
               struct err *e)
{
    static const struct json_opts opts = {.dup = JSON_DUP_LAST};
    struct str data = str_trim(ev->data);
    struct json *v = NULL;
    if (wire->done_marker && str_eqz(data, "[DONE]")) {
        r->ended = r->finished || r->items.n != 0; // an empty stream is no answer
        return 0;
    }
    if (data.n == 0 || data.p[0] != '{') {
        return 0;
    }
    int rc = json_parse(&v, &r->scratch, data, &opts, e);
    if (rc != 0) {
        return err_prefix(e, "an event is not JSON");
    }
    wire->event(r, v);
    arena_fini(&r->scratch);
    if (!wire_reply_fits(r)) {
        return err_set(e, ERR_TOO_LARGE, "the answer has too many parts");
    }
    return 0;
}
