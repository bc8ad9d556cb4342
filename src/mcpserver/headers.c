// Headers of the stateless era that repeat what the body says, so that a proxy can route without reading it.
//
//     Mcp-Method, Mcp-Name       the method, and the tool, prompt or resource
//     Mcp-Param-H                a parameter that its schema marks with "x-mcp-header": "H"
//
// A value that is no plain text of a header is written as =?base64?...?=. A request whose headers differ from its body
// is refused: a proxy would have routed it by a wrong value. The bridge on stdio gets no such headers to pass on and
// says so with `Afloat-Stdio`; there is no proxy before it.

#include "agent/agent.h"
#include "base/base64.h"
#include "mcpserver/mcp_int.h"

static const char PREFIX[] = "=?base64?", SUFFIX[] = "?=";

bool mcp_headers__say(struct str header, struct str value)
{
    size_t around = sizeof PREFIX - 1 + sizeof SUFFIX - 1;
    if (header.n < around || !str_starts(header, PREFIX) || !str_ends(header, SUFFIX)) {
        return str_eq(header, value);
    }
    struct str text = {header.p + sizeof PREFIX - 1, header.n - around};
    struct buf decoded = {.max = SIZE_MAX};
    bool same =
        text.n % 4 == 0 && base64_decode(&decoded, text) && str_eq(buf_str(&decoded), value);
    buf_fini(&decoded);
    return same;
}

/// A value as a header has it: a text as it is, numbers and booleans as JSON; false: it cannot be in one.
static bool text_of(struct arena *a, const struct json *v, struct str *out)
{
    struct buf text = {.max = 64};
    if (v->type == JSON_STR) {
        *out = v->s;
        return true;
    }
    if (v->type == JSON_ARR || v->type == JSON_OBJ || v->type == JSON_NULL) {
        return false;
    }
    json_write(&text, v, 0);
    *out = arena_str(a, buf_str(&text));
    buf_fini(&text);
    return true;
}

bool mcp_headers__fit(struct mcpserver *s, const struct mcp_view *v, const struct mount_call *m,
                      const struct rpc_message *msg, struct arena *a)
{
    struct str name = json_get_text(msg->params, "name");
    const struct gen_item *it =
        str_eqz(msg->method, "tools/call") ? agent_tool_find(s->o.agent, v->dir, name, a) : NULL;
    if (it == NULL || strstr(gen_item_about(it), "x-mcp-header") == NULL ||
        mount_header(m, "afloat-stdio").p != NULL) {
        return true;
    }
    const struct json *schema = json_get(gen_item_read_about(it, a), "input_schema");
    const struct json *properties = json_get(schema, "properties");
    bool fit = true;
    json_foreach_member (p, properties) {
        struct str marked = json_get_text(&p->value, "x-mcp-header"), value;
        if (marked.n != 0) {
            const struct json *arg = json_get_str(json_get(msg->params, "arguments"), p->key);
            struct str header =
                mount_header(m, arena_printf(a, "mcp-param-" STR_FMT, STR_ARG(marked)));
            bool given = arg != NULL && text_of(a, arg, &value);
            fit = fit &&
                  (given ? header.p != NULL && mcp_headers__say(header, value) : header.p == NULL);
        }
    }
    return fit;
}
