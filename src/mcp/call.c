// Calls of what a server offers: its tools and prompts, as calls of their items, its resources, and what would complete a
// word of them.
//
//     call ──> tools/call ──> answer ── a list is being read? ── yes: held until that is over ──> done
//
// Invariant: a call is in `calls` from its beginning to its answer, then in `held` or gone.

#include <assert.h>

#include "base/url.h"
#include "hook/args.h"
#include "mcp/server_int.h"
#include "mcp/template.h"

enum { WORDS_MAX = 100 };

// ---- a call from its beginning to its answer -------------------------------------------------

static bool is_ready(const struct mcp_server *s)
{
    return !s->closed && s->peer != NULL && s->state == MCP_READY;
}

static void put_in(struct mcp_call *c, struct mcp_call **list)
{
    c->next = *list;
    c->link = list;
    if (c->next != NULL) {
        c->next->link = &c->next;
    }
    *list = c;
}

static void take_out(struct mcp_call *c)
{
    *c->link = c->next;
    if (c->next != NULL) {
        c->next->link = c->link;
    }
}

static void finish(struct mcp_call *c)
{
    struct gen_call *call = c->call;
    struct arena a = c->arena;
    const struct json *result = c->result;
    struct err why = c->why;
    mcp__asks_forget(c);
    take_out(c);
    free(c);
    call->done(call, why.code, why.code == 0 ? result : NULL, why.code == 0 ? NULL : &why);
    arena_fini(&a);
}

void mcp__flush_held(struct mcp_server *s)
{
    while (s->held != NULL) {
        finish(s->held);
    }
}

/// The values that continue what was typed, each as a word to put in its place; those that are not one word are left out.
static const struct json *words_of(struct mcp_call *c, const struct json *values)
{
    struct json *list = arena_calloc(&c->arena, 1, sizeof *list);
    struct json *items = arena_calloc(&c->arena, WORDS_MAX, sizeof *items);
    *list = (struct json){.type = JSON_ARR, .items = items};
    json_foreach_item (it, values) {
        struct str value = json_str(it, "");
        struct buf text = {.max = SIZE_MAX};
        bool fits = list->n < WORDS_MAX && value.n >= c->typed.n && value.n != 0 &&
                    (c->typed.n == 0 || memcmp(value.p, c->typed.p, c->typed.n) == 0);
        buf_adds(&text, c->before);
        (c->escapes ? url_encode : buf_adds)(&text, value);
        buf_adds(&text, c->after);
        for (size_t i = 0; fits && i < text.n; i++) {
            fits = (unsigned char)text.p[i] > ' ' && text.p[i] != 0x7F;
        }
        if (fits) {
            struct str word = arena_str(&c->arena, buf_str(&text));
            items[list->n++] = (struct json){.type = JSON_STR, .s = word};
        }
        buf_fini(&text);
    }
    return list;
}

static void on_answer(struct mcp_request *r, int status, const struct json *answer,
                      const struct err *e)
{
    struct mcp_call *c = r->arg;
    struct mcp_server *s = c->server;
    struct err why = {0};
    if (status == 0 && mcp__asks_input(c, answer, &why) && why.code == 0) {
        return;
    }
    status = why.code != 0 ? why.code : status;
    e = why.code != 0 ? &why : e;
    mcp__asks_forget(c);
    if (status < 0) {
        err_set(&c->why, status == ERR_TIMEOUT ? ERR_TIMEOUT : ERR_INVALID,
                "MCP server '%.60s': %.160s", s->spec->name, e->msg);
    } else if (c->kind == CALL_TOOL) {
        c->result = json_clone(&c->arena, mcp__result(&c->arena, answer));
    } else if (c->kind == CALL_COMPLETE) {
        c->result = words_of(c, json_ptr(answer, "/completion/values"));
    } else {
        struct json *text = arena_calloc(&c->arena, 1, sizeof *text);
        text->type = JSON_STR;
        text->s = c->kind == CALL_PROMPT ? mcp__prompt_text(&c->arena, answer)
                                         : mcp__resource_text(&c->arena, answer);
        c->result = text;
    }
    take_out(c);
    put_in(c, &s->held);
    if (!mcp__server_listing(s)) {
        finish(c);
    }
}

static const char *const methods[] = {[CALL_TOOL] = "tools/call",
                                      [CALL_PROMPT] = "prompts/get",
                                      [CALL_RESOURCE] = "resources/read",
                                      [CALL_COMPLETE] = "completion/complete"};

void mcp__call_again(struct mcp_call *c, const struct json *answers, struct str state,
                     const struct err *e)
{
    struct buf members = {.max = SIZE_MAX};
    assert(is_ready(c->server)); // its calls end with its process
    if (answers == NULL) {
        on_answer(&c->request, ERR_DENIED, NULL, e);
        return;
    }
    buf_adds(&members, c->members);
    buf_addz(&members, ",\"inputResponses\":");
    json_write(&members, answers, 0);
    if (state.n != 0) {
        buf_addz(&members, ",\"requestState\":");
        struct jw w = {.out = &members};
        jw_str(&w, state);
    }
    mcp_peer_ask(c->server->peer, &c->request, methods[c->kind], buf_str(&members), c->name);
    buf_fini(&members);
}

static void on_progress(struct mcp_request *r, struct str text)
{
    const struct mcp_call *c = r->arg;
    struct hook_ctx *ctx = c->call->ctx;
    if (ctx != NULL && ctx->progress != NULL) {
        ctx->progress(ctx->arg, text);
    }
}

// ---- tools and prompts -----------------------------------------------------------------------

/// NAME=VALUE of an argument: its number, and `value` is cut to the value; -1: the word is none.
static ptrdiff_t named_argument(const struct mcp_offer *o, struct str *value)
{
    size_t n = str_count((const char *const *)o->arguments);
    struct str rest = *value, key = str_cut(&rest, '=');
    ptrdiff_t named = rest.p != NULL ? str_lookup(key, (const char *const *)o->arguments, n) : -1;
    *value = named >= 0 ? rest : *value;
    return named;
}

/// The words of a command: NAME=VALUE, or the arguments in their order; the last one takes the rest. Returns the number of
/// the argument that a further word belongs to.
static size_t write_arguments(struct jw *w, const struct mcp_offer *o, const struct json *words)
{
    size_t n = str_count((const char *const *)o->arguments), at = 0;
    jw_obj(w);
    for (uint32_t i = 0; words != NULL && words->type == JSON_ARR && i < words->n; i++) {
        struct str word = json_str(&words->items[i], ""), value = word;
        ptrdiff_t named = named_argument(o, &value);
        if (named >= 0) {
            jw_kstr(w, o->arguments[named], value);
        } else if (at + 1 == n) {
            struct buf rest = {.max = SIZE_MAX};
            for (; i < words->n; i++) {
                struct str more = json_str(&words->items[i], "");
                buf_addf(&rest, "%s" STR_FMT, rest.n != 0 ? " " : "", STR_ARG(more));
            }
            jw_kstr(w, o->arguments[at++], buf_str(&rest));
            buf_fini(&rest);
        } else if (at < n) {
            jw_kstr(w, o->arguments[at++], word);
        }
    }
    jw_end_obj(w);
    return at;
}

/// Write name and arguments of a call: of a tool `input` is an object, of a prompt the words of a command.
static void write_members(struct buf *out, const struct mcp_offer *o, const struct json *input)
{
    static const struct json object = {.type = JSON_OBJ};
    struct jw w = {.out = out};
    buf_addz(out, "\"name\":");
    jw_strz(&w, o->tool);
    buf_addz(out, ",\"arguments\":");
    jw_init(&w, out);
    if (o->kind == GEN_COMMAND) {
        (void)write_arguments(&w, o, input);
    } else {
        jw_value(&w, input != NULL && input->type == JSON_OBJ ? input : &object);
    }
}

static void refuse(struct gen_call *call, const struct mcp_server *s)
{
    struct err e;
    err_set(&e, ERR_INVALID, "MCP server '%.60s' is %s%s%.140s", s->spec->name,
            s->state == MCP_STARTING ? "still starting" : "not running",
            s->error != NULL ? ": " : "", s->error != NULL ? s->error : "");
    call->done(call, e.code, NULL, &e);
}

/// A call to the server, which is ready; ask() begins it.
static struct mcp_call *call_new(struct mcp_server *s, enum call_kind kind, struct gen_call *call,
                                 struct str members, struct str name)
{
    struct mcp_call *c = xcalloc(1, sizeof *c);
    c->members = arena_str(&c->arena, members);
    c->name = arena_str(&c->arena, name);
    c->server = s;
    c->call = call;
    c->kind = kind;
    c->request = (struct mcp_request){
        .done = on_answer,
        .progress = on_progress,
        .arg = c,
        .timeout_ms = call->timeout_ms != 0 ? MIN((uint64_t)call->timeout_ms, s->spec->timeout_ms)
                                            : s->spec->timeout_ms};
    call->target_data = c;
    put_in(c, &s->calls);
    return c;
}

/// It may be answered from inside.
static void ask(struct mcp_call *c)
{
    mcp_peer_ask(c->server->peer, &c->request, methods[c->kind], c->members, c->name);
}

static void call_offer(void *data, struct gen_call *call)
{
    struct mcp_offer *o = data;
    struct mcp_server *s = o->server;
    enum call_kind kind = o->kind == GEN_COMMAND ? CALL_PROMPT : CALL_TOOL;
    struct buf members = {.max = SIZE_MAX};
    if (!is_ready(s)) {
        refuse(call, s);
        return;
    }
    if (o->changed) { // the user was shown the difference, and allowed the call
        mcp__approve(s, o);
        mcp__server_relist(s, MCP_TOOLS);
    }
    write_members(&members, o, call->input);
    ask(call_new(s, kind, call, buf_str(&members), str_of(o->tool)));
    buf_fini(&members);
}

// ---- resources, and what completes a word ----------------------------------------------------

void mcp__read(struct mcp_server *s, struct str uri, struct gen_call *call)
{
    struct buf members = {.max = SIZE_MAX};
    if (!is_ready(s)) {
        refuse(call, s);
        return;
    }
    buf_addz(&members, "\"uri\":");
    struct jw w = {.out = &members};
    jw_str(&w, uri);
    ask(call_new(s, CALL_RESOURCE, call, buf_str(&members), uri));
    buf_fini(&members);
}

/// Ask for the values of `argument` of what `ref` (JSON) is, with those that are `given` (JSON) already.
static struct mcp_call *new_completion(struct mcp_server *s, struct gen_call *call, struct str ref,
                                       struct str argument, struct str value, struct str given)
{
    struct buf members = {.max = SIZE_MAX};
    struct jw w = {.out = &members};
    jw_obj(&w);
    jw_key(&w, "ref");
    jw_raw(&w, ref);
    jw_kobj(&w, "argument");
    jw_kstr(&w, "name", argument);
    jw_kstr(&w, "value", value);
    jw_end_obj(&w);
    jw_kobj(&w, "context");
    jw_key(&w, "arguments");
    jw_raw(&w, given);
    jw_end_obj(&w);
    jw_end_obj(&w);
    struct mcp_call *c =
        call_new(s, CALL_COMPLETE, call, (struct str){members.p + 1, members.n - 2}, STR_NULL);
    c->typed = arena_str(&c->arena, value);
    buf_fini(&members);
    return c;
}

/// `{type, MEMBER: value}`
static void write_ref(struct buf *out, const char *type, const char *member, const char *value)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "type", type);
    jw_kstrz(&w, member, value);
    jw_end_obj(&w);
}

/// NULL: there is nothing to ask.
static struct mcp_call *complete_prompt(struct mcp_server *s, const struct mcp_typed *typed,
                                        struct gen_call *call)
{
    const struct mcp_offer *o = NULL;
    vec_foreach (it, &s->offers) {
        bool named = (*it)->kind == GEN_COMMAND && str_eqz(typed->prompt, (*it)->name);
        o = o == NULL && named ? *it : o;
    }
    struct str value = typed->word;
    struct buf ref = {.max = SIZE_MAX}, given = {.max = SIZE_MAX};
    struct mcp_call *c = NULL;
    if (o == NULL) {
        return NULL;
    }
    struct jw w = {.out = &given};
    ptrdiff_t named = named_argument(o, &value);
    size_t at = write_arguments(&w, o, typed->words);
    const char *argument = o->arguments[named >= 0 ? (size_t)named : at];
    if (argument != NULL) {
        write_ref(&ref, "ref/prompt", "name", o->tool);
        c = new_completion(s, call, buf_str(&ref), str_of(argument), value, buf_str(&given));
        c->before = arena_str(&c->arena, (struct str){typed->word.p, typed->word.n - value.n});
    }
    buf_fini(&ref);
    buf_fini(&given);
    return c;
}

/// By the first template that the address fits. NULL: there is nothing to ask.
static struct mcp_call *complete_address(struct mcp_server *s, struct str uri,
                                         struct gen_call *call)
{
    struct buf ref = {.max = SIZE_MAX}, given = {.max = SIZE_MAX}, value = {.max = SIZE_MAX};
    struct mcp_call *c = NULL;
    for (size_t i = 0; i < s->templates.n && c == NULL; i++) {
        struct mcp_spot at;
        buf_clear(&given);
        struct jw w = {.out = &given};
        jw_obj(&w);
        bool fits = mcp_template_at(str_of(s->templates.p[i]), uri, &at, &w);
        jw_end_obj(&w);
        if (fits) {
            write_ref(&ref, "ref/resource", "uri", s->templates.p[i]);
            at.reserved ? buf_adds(&value, at.value) : url_decode(&value, at.value, false);
            c = new_completion(s, call, buf_str(&ref), at.variable, buf_str(&value),
                               buf_str(&given));
            c->before = arena_str(&c->arena, at.before);
            c->after = arena_str(&c->arena, at.after);
            c->escapes = !at.reserved;
        }
    }
    buf_fini(&ref);
    buf_fini(&given);
    buf_fini(&value);
    return c;
}

void mcp__complete(struct mcp_server *s, const struct mcp_typed *typed, struct gen_call *call)
{
    static const struct json nothing = {.type = JSON_ARR};
    if (!is_ready(s)) {
        refuse(call, s);
        return;
    }
    struct mcp_call *c = !mcp_peer_completes(s->peer) ? NULL
                         : typed->prompt.n != 0       ? complete_prompt(s, typed, call)
                                                      : complete_address(s, typed->uri, call);
    if (c != NULL) {
        ask(c);
    } else {
        call->done(call, 0, &nothing, NULL);
    }
}

// ---- ends ------------------------------------------------------------------------------------

void mcp__end_calls(struct mcp_server *s, const char *why)
{
    while (s->calls != NULL) {
        struct mcp_call *c = s->calls;
        err_set(&c->why, ERR_INVALID, "MCP server '%.60s': %.160s", s->spec->name, why);
        finish(c);
    }
}

static void cancel_offer(void *data, struct gen_call *call)
{
    struct mcp_call *c = call->target_data;
    (void)data;
    mcp__asks_forget(c);
    if (c->server->peer != NULL) {
        mcp_peer_cancel(c->server->peer, &c->request);
    }
    take_out(c);
    arena_fini(&c->arena);
    free(c);
}

const struct gen_target mcp__offer_target = {.call = call_offer, .cancel = cancel_offer};
