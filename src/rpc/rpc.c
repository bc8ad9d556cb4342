// JSON-RPC 2.0 messages.
//
// MCP and ACP are made of them, over HTTP and over pipes, with us as server and as client. This file reads and
// writes single messages and knows neither: who sent a message, what its method means and which ids are open is
// the business of the callers.
//
//     text ─> rpc_parse ─> packet: one message, or a batch ─> kind: request, notification, result, error, invalid
//
// A message that is JSON but not JSON-RPC becomes RPC_INVALID instead of an error of the whole text, since each
// message of a batch is answered by itself. Ids are strings or integers: `null` and fractions are refused, because
// no peer could tell which of its requests is meant. Members that we do not know are ignored.

#include "rpc/rpc.h"

#include <assert.h>
#include <stdarg.h>

#include "base/vec.h"

static struct rpc_message invalid(const struct json *id, const char *why)
{
    return (struct rpc_message){.kind = RPC_INVALID, .id = id, .message = str_of(why)};
}

static bool is_id(const struct json *id)
{
    return id != NULL && (id->type == JSON_STR || id->type == JSON_INT);
}

static struct rpc_message read_call(const struct json *v, const struct json *id)
{
    const struct json *method = json_get(v, "method");
    const struct json *params = json_get(v, "params");
    if (method->type != JSON_STR || method->s.n == 0) {
        return invalid(id, "'method' is not a name");
    }
    if (json_get(v, "result") != NULL || json_get(v, "error") != NULL) {
        return invalid(id, "a message has either 'method' or a result");
    }
    if (params != NULL && params->type != JSON_OBJ && params->type != JSON_ARR) {
        return invalid(id, "'params' is neither an object nor an array");
    }
    return (struct rpc_message){.kind = id != NULL ? RPC_REQUEST : RPC_NOTIFICATION,
                                .id = id,
                                .method = method->s,
                                .params = params};
}

static struct rpc_message read_answer(const struct json *v, const struct json *id)
{
    const struct json *result = json_get(v, "result");
    const struct json *error = json_get(v, "error");
    // Some libraries write both, and null for the one that does not apply.
    if (result != NULL && error != NULL) {
        bool good = error->type == JSON_NULL;
        error = good ? NULL : error;
        result = !good && result->type == JSON_NULL ? NULL : result;
    }
    const struct json *code = json_get(error, "code");
    const struct json *message = json_get(error, "message");
    if ((result != NULL) == (error != NULL)) {
        return invalid(id, result != NULL ? "a message has either 'result' or 'error'"
                                          : "a message has 'method', 'result' or 'error'");
    }
    if (result != NULL) {
        return id == NULL ? invalid(NULL, "a result has no 'id'")
                          : (struct rpc_message){.kind = RPC_RESULT, .id = id, .result = result};
    }
    if (code == NULL || code->type != JSON_INT || message == NULL || message->type != JSON_STR) {
        return invalid(id, "'error' needs an integer 'code' and a 'message'");
    }
    return (struct rpc_message){
        .kind = RPC_ERROR, .id = id, .code = code->i, .message = message->s};
}

struct rpc_message rpc_read(const struct json *v)
{
    const struct json *id = json_get(v, "id");
    if (v == NULL || v->type != JSON_OBJ) {
        return invalid(NULL, "a message is an object");
    }
    const struct json *method = json_get(v, "method");
    bool null_id = id != NULL && id->type == JSON_NULL && method == NULL;
    if (id != NULL && !is_id(id) && !null_id) {
        return invalid(NULL, "'id' is neither a string nor an integer");
    }
    if (null_id) {
        id = NULL; // an error about a request whose id the peer could not read
    }
    if (!str_eqz(json_str(json_get(v, "jsonrpc"), NULL), "2.0")) {
        return invalid(id, "'jsonrpc' is not \"2.0\"");
    }
    return method != NULL ? read_call(v, id) : read_answer(v, id);
}

int rpc_parse(struct rpc_packet *out, struct arena *a, struct str text, struct err *e)
{
    struct json *v;
    *out = (struct rpc_packet){0};
    int rc = json_parse(&v, a, text, &(struct json_opts){.dup = JSON_DUP_LAST}, e);
    if (rc < 0) {
        return err_set(e, ERR_PARSE, "%s", e != NULL ? e->msg : "");
    }
    bool batch = v->type == JSON_ARR;
    size_t n = batch ? v->n : 1;
    if (n == 0 || n > RPC_BATCH_MAX) {
        return err_set(e, ERR_INVALID, "a batch has 1 to %d messages, not %zu", RPC_BATCH_MAX, n);
    }
    *out = (struct rpc_packet){arena_calloc(a, n, sizeof *out->messages), n, batch};
    for (size_t i = 0; i < n; i++) {
        out->messages[i] = rpc_read(batch ? &v->items[i] : v);
    }
    return 0;
}

bool rpc_same_id(const struct json *a, const struct json *b)
{
    return is_id(a) && is_id(b) && a->type == b->type && json_equal(a, b);
}

// ---- writing -------------------------------------------------------------------------------

static void begin(struct jw *w, const struct json *id)
{
    assert(id == NULL || is_id(id));
    jw_obj(w);
    jw_kstr(w, "jsonrpc", STR("2.0"));
}

void rpc_begin_request(struct jw *w, const struct json *id, const char *method)
{
    begin(w, id);
    if (id != NULL) {
        jw_kvalue(w, "id", id);
    }
    jw_kstrz(w, "method", method);
    jw_key(w, "params");
}

void rpc_begin_result(struct jw *w, const struct json *id)
{
    assert(id != NULL);
    begin(w, id);
    jw_kvalue(w, "id", id);
    jw_key(w, "result");
}

static void begin_error(struct jw *w, const struct json *id, int64_t code, struct str message)
{
    begin(w, id);
    jw_kvalue(w, "id", id);
    jw_kobj(w, "error");
    jw_kint(w, "code", code);
    jw_kstr(w, "message", message);
}

void rpc_begin_error(struct jw *w, const struct json *id, int64_t code, struct str message)
{
    begin_error(w, id, code, message);
    jw_key(w, "data");
}

void rpc_end(struct jw *w)
{
    jw_end_obj(w);
}

void rpc_end_error(struct jw *w)
{
    jw_end_obj(w);
    jw_end_obj(w);
}

void rpc_error(struct jw *w, const struct json *id, int64_t code, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args); // a cut character becomes U+FFFD
    va_end(args);
    begin_error(w, id, code, str_of(text));
    rpc_end_error(w);
}

struct json rpc_int_id(int64_t id)
{
    return (struct json){.type = JSON_INT, .i = id};
}
