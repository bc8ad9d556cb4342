// prompts/get, resources/read and completion/complete: what plugins offer beside tools.
//
// A call pins the generation in which it found its item, and ends on it. What a handler returns is brought into the
// shape of MCP here: a text is one message of the user, or the text of the resource.

#include <assert.h>

#include "gen/engine.h"
#include "mcpserver/mcp_int.h"

enum { COMPLETIONS_MAX = 100, VARIABLES_MAX = 16 };

static struct gen *current(struct mcp_call *c)
{
    struct gen_engine *engine = api_engine(c->server->o.api);
    return engine != NULL ? gen_current(engine) : NULL;
}

/// The item of that name that clients see; NULL: none.
static struct gen_item *find_item(struct mcp_call *c, struct gen *g, enum gen_kind kind,
                                  struct str name)
{
    struct gen_item *it = g != NULL ? gen_item_find(g, kind, name) : NULL;
    return it != NULL && mcp_lists__has(c->server, c->view, it, kind) ? it : NULL;
}

/// Run the handler of `it` with `input`.
static void run(struct mcp_call *c, struct gen *g, struct gen_item *it, const struct json *input,
                gen_call_done *done)
{
    const struct gen_target *face = gen_item_face(it);
    assert(c->gen == NULL && !c->busy);
    c->gen = gen_pin(g);
    c->item = it;
    c->ctx = (struct hook_ctx){.caller = &mcp_ask__caller, .caller_arg = c, .client = c->client};
    c->gen_call = (struct gen_call){.input = input, .ctx = &c->ctx, .done = done, .arg = c};
    c->busy = true;
    face->call(gen_item_data(it), &c->gen_call); // may have answered and freed `c`
}

/// The handler has ended. False: it failed, or the client does not want its answer; the call is over.
static bool end_handler(struct mcp_call *c, int status, const struct err *e)
{
    c->item = NULL;
    if (c->post != NULL && status == 0) {
        mcp_ask__drop(c);
        return true;
    }
    if (c->post != NULL) {
        mcp_ask__drop(c);
        mcp_call__fail(c, RPC_INTERNAL_ERROR, NULL, "%s", e->msg);
    }
    mcp_call__idle(c);
    return false;
}

static struct json *new_object(struct arena *a, size_t n)
{
    struct json *v = arena_calloc(a, 1, sizeof *v);
    v->type = JSON_OBJ;
    v->members = arena_calloc(a, n + 1, sizeof *v->members);
    return v;
}

// ---- prompts ----------------------------------------------------------------------------------------

static void write_message(struct jw *w, const struct json *v)
{
    const struct json *content = json_get(v, "content");
    jw_obj(w);
    jw_kstr(w, "role", json_str(json_get(v, "role"), "user"));
    jw_key(w, "content");
    content = content != NULL ? content : v;
    if (content != NULL && content->type == JSON_STR) {
        mcp_call__text(w, content->s);
    } else { // a block as it is
        jw_value(w, content);
    }
    jw_end_obj(w);
}

static void on_prompt(struct gen_call *gen_call, int status, const struct json *output,
                      const struct err *e)
{
    struct mcp_call *c = gen_call->arg;
    if (!end_handler(c, status, e)) {
        return;
    }
    const struct json *messages = json_get(output, "messages");
    const struct json *about = json_get(output, "description");
    struct jw *w = mcp_call__begin(c);
    if (about != NULL && about->type == JSON_STR) {
        jw_kstr(w, "description", about->s);
    }
    messages = messages != NULL ? messages : output;
    jw_karr(w, "messages");
    if (messages->type == JSON_ARR) {
        json_foreach_item (it, messages) {
            write_message(w, it);
        }
    } else {
        write_message(w, messages);
    }
    jw_end_arr(w);
    mcp_call__end(c);
    mcp_call__idle(c);
}

void mcp_offers__get_prompt(struct mcp_call *c)
{
    static const struct json none = {.type = JSON_OBJ};
    struct gen *g = current(c);
    struct str name = json_get_text(c->params, "name");
    struct gen_item *it = find_item(c, g, GEN_MCP_PROMPT, name);
    const struct json *arguments = json_get(c->params, "arguments");
    arguments = arguments != NULL ? arguments : &none;
    if (it == NULL) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "there is no prompt '" STR_FMT "'",
                       (int)MIN(name.n, 100), name.p);
        return;
    }
    const struct json *known = json_get(gen_item_read_about(it, &c->arena), "arguments");
    json_foreach_item (arg, known) {
        struct str key = json_get_text(arg, "name");
        if (json_bool(json_get(arg, "required"), false) && json_get_str(arguments, key) == NULL) {
            mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "the argument '" STR_FMT "' is missing",
                           STR_ARG(key));
            return;
        }
    }
    if (mcp_ask__read(c)) {
        run(c, g, it, arguments, on_prompt);
    }
}

// ---- resources --------------------------------------------------------------------------------------

/// Does `uri` fit the template? `{name}` takes everything up to the text that follows it, but no `/`;
/// `{+name}` takes `/` as well. The variables are put into `params`.
static bool fits(struct str template, struct str uri, struct json *params)
{
    params->n = 0;
    while (template.n != 0) {
        if (template.p[0] != '{') {
            if (uri.n == 0 || uri.p[0] != template.p[0]) {
                return false;
            }
            template = str_from(template, 1);
            uri = str_from(uri, 1);
            continue;
        }
        template = str_from(template, 1);
        struct str name = str_cut(&template, '}');
        bool slashes = name.n != 0 && name.p[0] == '+';
        char stop = template.n != 0 ? template.p[0] : '\0';
        size_t n = 0;
        while (n < uri.n && (stop == '\0' || uri.p[n] != stop) && (slashes || uri.p[n] != '/')) {
            n++;
        }
        if (n == 0 || params->n == VARIABLES_MAX) {
            return false;
        }
        params->members[params->n++] = (struct json_member){slashes ? str_from(name, 1) : name,
                                                            {.type = JSON_STR, .s = {uri.p, n}}};
        uri = str_from(uri, n);
    }
    return uri.n == 0;
}

/// The resource of that address: one of exactly this, else the first template that it fits.
static struct gen_item *find_resource(struct mcp_call *c, struct gen *g, struct json *params)
{
    struct gen_item *exact = find_item(c, g, GEN_MCP_RESOURCE, c->uri);
    if (exact != NULL &&
        !json_bool(json_get(gen_item_read_about(exact, &c->arena), "template"), false)) {
        params->n = 0;
        return exact;
    }
    struct gen_walk all = gen_walk(g, GEN_MCP_RESOURCE);
    for (struct gen_item *it; (it = gen_walk_next(&all)) != NULL;) {
        if (mcp_lists__has(c->server, c->view, it, GEN_MCP_RESOURCE) &&
            strchr(gen_item_name(it), '{') != NULL &&
            fits(str_of(gen_item_name(it)), c->uri, params)) {
            return it;
        }
    }
    return NULL;
}

static void write_contents(struct mcp_call *c, struct jw *w, const struct json *v, struct str mime)
{
    const struct json *blob = json_get(v, "blob");
    jw_obj(w);
    jw_kstr(w, "uri", json_str(json_get(v, "uri"), arena_strdup(&c->arena, c->uri)));
    mime = json_str(json_get(v, "mime"), arena_strdup(&c->arena, mime));
    if (mime.n != 0) {
        jw_kstr(w, "mimeType", mime);
    }
    if (blob != NULL && blob->type == JSON_STR) {
        jw_kstr(w, "blob", blob->s);
    } else {
        const struct json *text = v->type == JSON_OBJ ? json_get(v, "text") : v;
        jw_key(w, "text");
        if (text != NULL && text->type == JSON_STR) {
            jw_str(w, text->s);
        } else {
            struct buf json = {.max = SIZE_MAX};
            json_write(&json, text != NULL ? text : v, 0);
            jw_str(w, buf_str(&json));
            buf_fini(&json);
        }
    }
    jw_end_obj(w);
}

static void fail_missing(struct mcp_call *c)
{
    struct buf data = {.max = SIZE_MAX};
    struct jw w = {.out = &data};
    jw_obj(&w);
    jw_kstr(&w, "uri", c->uri);
    jw_end_obj(&w);
    mcp_call__fail(c, c->modern ? (int)RPC_INVALID_PARAMS : (int)MCP_RESOURCE_NOT_FOUND,
                   buf_z(&data), "there is no such resource");
    buf_fini(&data);
}

static void on_resource(struct gen_call *gen_call, int status, const struct json *output,
                        const struct err *e)
{
    struct mcp_call *c = gen_call->arg;
    const struct gen_item *it = c->item; // its generation is pinned
    if (!end_handler(c, status, e)) {
        return;
    }
    if (output->type == JSON_NULL) { // the template fits, the handler knows no such thing
        fail_missing(c);
        mcp_call__idle(c);
        return;
    }
    struct str mime = json_get_text(gen_item_read_about(it, &c->arena), "mimeType");
    struct jw *w = mcp_call__begin(c);
    jw_karr(w, "contents");
    bool several =
        output->type == JSON_ARR && output->n != 0 && output->items[0].type == JSON_OBJ &&
        (json_get(output->items, "text") != NULL || json_get(output->items, "blob") != NULL);
    if (several) {
        json_foreach_item (one, output) {
            write_contents(c, w, one, mime);
        }
    } else {
        write_contents(c, w, output, mime);
    }
    jw_end_arr(w);
    mcp_call__end(c);
    mcp_call__idle(c);
}

void mcp_offers__read_resource(struct mcp_call *c)
{
    struct gen *g = current(c);
    struct json *params = new_object(&c->arena, VARIABLES_MAX);
    c->uri = json_get_text(c->params, "uri");
    struct gen_item *it = g != NULL && c->uri.n != 0 ? find_resource(c, g, params) : NULL;
    if (it == NULL) {
        fail_missing(c);
        return;
    }
    struct json *input = new_object(&c->arena, 2);
    input->members[input->n++] = (struct json_member){STR("uri"), {.type = JSON_STR, .s = c->uri}};
    input->members[input->n++] = (struct json_member){STR("params"), *params};
    if (mcp_ask__read(c)) {
        run(c, g, it, input, on_resource);
    }
}

// ---- completion -------------------------------------------------------------------------------------

/// What the plugin lists for this argument of a prompt, or variable of a template; NULL: nothing.
static const struct json *known_values(struct mcp_call *c, struct gen *g)
{
    const struct json *ref = json_get(c->params, "ref");
    struct str argument = json_get_text(json_get(c->params, "argument"), "name");
    bool prompt = str_eqz(json_get_text(ref, "type"), "ref/prompt");
    struct str name = json_str(json_get(ref, prompt ? "name" : "uri"), "");
    struct gen_item *it = find_item(c, g, prompt ? GEN_MCP_PROMPT : GEN_MCP_RESOURCE, name);
    const struct json *about = it != NULL ? gen_item_read_about(it, &c->arena) : NULL;
    if (!prompt) {
        return json_get_str(json_get(about, "values"), argument);
    }
    json_foreach_item (arg, json_get(about, "arguments")) {
        if (str_eq(json_get_text(arg, "name"), argument)) {
            return json_get(arg, "values");
        }
    }
    return NULL;
}

void mcp_offers__complete(struct mcp_call *c)
{
    struct gen *g = current(c);
    const struct json *argument = json_get(c->params, "argument");
    const char *begin = arena_strdup(&c->arena, json_get_text(argument, "value"));
    if (json_get(c->params, "ref") == NULL || json_get(argument, "name") == NULL) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "'ref' and 'argument' are needed");
        return;
    }
    const struct json *values = g != NULL ? known_values(c, g) : NULL;
    size_t n = 0;
    struct jw *w = mcp_call__begin(c);
    jw_kobj(w, "completion");
    jw_karr(w, "values");
    json_foreach_item (it, values) {
        if (it->type == JSON_STR && str_starts(it->s, begin) && n++ < COMPLETIONS_MAX) {
            jw_str(w, it->s);
        }
    }
    jw_end_arr(w);
    jw_kint(w, "total", (int64_t)n);
    jw_kbool(w, "hasMore", n > COMPLETIONS_MAX);
    jw_end_obj(w);
    mcp_call__end(c);
}
