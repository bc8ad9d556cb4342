// A server's tools and prompts as contributions of its unit, and the calls of them.
//
//     list ──> compare with what is offered ──┬─ new, changed: an item is added ──┐
//                                             └─ gone, changed: it is taken back ─┴─> one new generation
//
// Items of tools are named NAME__tool, those of prompts as the server has it (mcp:NAME:prompt with the unit). The
// unit's items are all that the rest of the hub knows of MCP. A schema is passed on as the server wrote it.
//
//     call ──> tools/call ──> answer ── a list is being read? ── yes: held until that is over ──> done
//
// Invariants:
//   - an item holds a reference on its offer, and so does the server's list; an offer that a newer list replaced
//     lives as long as a generation shows it.
//   - a call is in `calls` from its beginning to its answer, then in `held` or gone.

#include <assert.h>

#include "base/linediff.h"
#include "base/log.h"
#include "base/url.h"
#include "base/utf8.h"
#include "gen/result.h"
#include "hook/args.h"
#include "mcp/server_int.h"
#include "mcp/template.h"

enum {
    WORDS_MAX = 100,
    OFFERS_MAX = 2000,
    DESCRIPTION_MAX = 16 * 1024,
    ABOUT_MAX = 1 << 20,
    DIFF_MAX = 32 * 1024
};

// ---- offers ---------------------------------------------------------------------------------

static void offer_unref(struct mcp_offer *o)
{
    assert(o->refs != 0);
    if (--o->refs != 0) {
        return;
    }
    for (size_t i = 0; o->arguments != NULL && o->arguments[i] != NULL; i++) {
        free(o->arguments[i]);
    }
    free(o->arguments);
    free(o->tool);
    free(o->name);
    free(o->about);
    free(o->description);
    free(o->schema);
    free(o);
}

/// A schema in lines, to be compared.
static struct str lines_of(struct arena *a, const char *schema)
{
    struct json *v = NULL;
    struct buf text = {.max = SIZE_MAX};
    (void)!json_parse(&v, a, str_of(schema), NULL, NULL);
    json_write(&text, v, 2);
    struct str lines = arena_str(a, buf_str(&text));
    buf_fini(&text);
    return lines;
}

/// What is other than what the user agreed to.
static void write_change(struct buf *out, const struct mcp_approval *known,
                         const struct mcp_offer *o)
{
    const char *before = known->schema != NULL ? known->schema : "{}";
    struct arena a = {0};
    linediff_hunks(out, str_of(known->description), str_of(o->description));
    if (strcmp(before, o->schema) != 0) {
        buf_addz(out, "the schema of its input:\n");
        linediff_hunks(out, lines_of(&a, before), lines_of(&a, o->schema));
    }
    arena_fini(&a);
}

/// What the item says. A tool that is not what the user agreed to keeps the description and the schema that he has seen,
/// and carries the difference.
static char *tool_about(const struct mcp_server *s, const struct mcp_offer *o)
{
    const struct mcp_approval *known = mcp__approval(s, o->tool);
    const char *seen = known->schema != NULL ? known->schema : "{}";
    struct buf text = {.max = ABOUT_MAX}, diff = {.max = DIFF_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "description", o->changed ? known->description : o->description);
    jw_key(&w, "input_schema");
    jw_raw(&w, str_of(o->changed ? seen : o->schema));
    if (o->changed) {
        write_change(&diff, known, o);
        jw_kstrz(&w, "permission", "ask");
        jw_kstr(&w, "changed", buf_str(&diff));
    }
    jw_end_obj(&w);
    char *about = buf_ok(&text) ? buf_take(&text, NULL) : NULL;
    buf_fini(&text);
    buf_fini(&diff);
    return about;
}

static char *prompt_about(struct mcp_offer *o, const struct json *item)
{
    const struct json *arguments = json_get(item, "arguments");
    struct buf text = {.max = ABOUT_MAX};
    size_t n = 0;
    o->arguments = xcalloc((arguments != NULL ? arguments->n : 0) + 1, sizeof *o->arguments);
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "description", o->description);
    jw_kbool(&w, "prompt", true);
    jw_karr(&w, "arguments");
    json_foreach_item (it, arguments) {
        struct str name = json_get_text(it, "name");
        o->arguments[n++] = str_dup(name);
        jw_str(&w, name);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    char *about = buf_ok(&text) ? buf_take(&text, NULL) : NULL;
    buf_fini(&text);
    return about;
}

/// NULL: it is not one.
static struct mcp_offer *offer_new(struct mcp_server *s, enum gen_kind kind,
                                   const struct json *item)
{
    static const struct json object = {.type = JSON_OBJ};
    struct str tool = json_get_text(item, "name");
    struct str description = json_get_text(item, "description");
    struct arena a = {0};
    if (tool.n == 0 || memchr(tool.p, '\0', tool.n) != NULL) {
        return NULL;
    }
    struct mcp_offer *o = xcalloc(1, sizeof *o);
    struct str cut = {description.p, utf8_cut(description.p, description.n, DESCRIPTION_MAX)};
    *o = (struct mcp_offer){.server = s, .kind = kind, .refs = 1, .tool = str_dup(tool)};
    o->name = str_dup(kind == GEN_TOOL ? mcp_name(&a, s->spec->name, tool) : tool);
    o->description = str_dup(cut);
    arena_fini(&a);
    if (kind != GEN_TOOL) {
        for (char *p = o->name; *p != '\0'; p++) { // one word, to be typed after a `/`
            *p = (unsigned char)*p <= ' ' || *p == 0x7F ? '_' : *p;
        }
        return o;
    }
    const struct json *schema = json_get(item, "inputSchema");
    uint8_t digest[SHA256_SIZE];
    struct buf text = {.max = SIZE_MAX}, both = {.max = SIZE_MAX};
    json_write(&text, schema != NULL && schema->type == JSON_OBJ ? schema : &object, 0);
    buf_addf(&both, "%s\n" STR_FMT, o->description, STR_ARG(buf_str(&text)));
    sha256_of(buf_str(&both), digest);
    sha256_hex(digest, o->mark);
    o->schema = buf_take(&text, NULL);
    buf_fini(&both);
    return o;
}

// ---- calls ----------------------------------------------------------------------------------

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

static void write_tool(struct buf *out, const struct mcp_offer *o, const struct json *input)
{
    static const struct json object = {.type = JSON_OBJ};
    buf_addz(out, "\"name\":");
    struct jw w = {.out = out};
    jw_strz(&w, o->tool);
    buf_addz(out, ",\"arguments\":");
    json_write(out, input != NULL && input->type == JSON_OBJ ? input : &object, 0);
}

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

static void write_prompt(struct buf *out, const struct mcp_offer *o, const struct json *words)
{
    buf_addz(out, "\"name\":");
    struct jw w = {.out = out};
    jw_strz(&w, o->tool);
    buf_addz(out, ",\"arguments\":");
    jw_init(&w, out);
    (void)write_arguments(&w, o, words);
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
    bool prompt = o->kind == GEN_COMMAND;
    struct buf members = {.max = SIZE_MAX};
    if (!is_ready(s)) {
        refuse(call, s);
        return;
    }
    if (o->changed) { // the user was shown the difference, and allowed the call
        mcp__approve(s, o);
        mcp__server_relist(s, MCP_TOOLS);
    }
    (prompt ? write_prompt : write_tool)(&members, o, call->input);
    ask(call_new(s, prompt ? CALL_PROMPT : CALL_TOOL, call, buf_str(&members), str_of(o->tool)));
    buf_fini(&members);
}

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

static const struct gen_target target = {.call = call_offer, .cancel = cancel_offer};

// ---- items ----------------------------------------------------------------------------------

static void release_item(void *data)
{
    offer_unref(data);
}

static const struct gen_item_ops item_ops = {.release = release_item};

static void take_back(struct mcp_offer *o)
{
    if (o->id != 0 && o->server->unit != NULL) {
        (void)!gen_unit_off(o->server->unit, o->id, NULL);
    }
    o->id = 0;
}

static void put_item(struct mcp_server *s, struct mcp_offer *o)
{
    struct gen_item *item;
    struct err e = {0};
    struct gen_item_spec spec = {.kind = o->kind,
                                 .name = str_of(o->name),
                                 .about = str_of(o->about),
                                 .ops = &item_ops,
                                 .face = &target,
                                 .data = o};
    if (s->unit != NULL && gen_unit_add(s->unit, &spec, &item, &e) == 0) {
        o->refs++;
        o->id = gen_item_id(item);
    } else if (s->unit != NULL) {
        log_warn(LOG_HUB, "mcp=%s tool=%s reason=%s", LOGQ(str_of(s->spec->name)).z,
                 LOGQ(str_of(o->tool)).z, LOGQ(str_of(e.msg)).z);
    }
}

/// A list that is being compared with what is offered.
struct listing {
    struct mcp_server *server;
    enum gen_kind kind;
    struct map tools, names; // the offers of this kind, by their name and by ours
    size_t n;                // of the list, that are offered
    size_t refused;          // new tools that approve.c has no room for
    bool news;               // the user has agreed to something new
};

static void remember(struct listing *l, struct mcp_offer *o)
{
    (void)!map_set(&l->tools, str_of(o->tool), o);
    (void)!map_set(&l->names, str_of(o->name), o);
}

/// Decide whether it is offered, and count it when the user has not agreed to it. `old`: what stands for it now, NULL:
/// nothing.
static bool judge(struct listing *l, struct mcp_offer *o, const struct mcp_offer *old)
{
    struct mcp_server *s = l->server;
    const struct mcp_offer *same = map_get(&l->names, str_of(o->name));
    bool first = (same == NULL || same == old) && (old == NULL || !old->seen);
    const char *const *tools = (const char *const *)s->spec->tools;
    bool wanted = tools == NULL || str_lookup(str_of(o->tool), tools, str_count(tools)) >= 0;
    if (!first || l->kind != GEN_TOOL || !wanted) {
        return first && l->kind != GEN_TOOL;
    }
    bool approved = mcp__approve_new(s, o, &l->news);
    l->refused += !approved;
    return approved;
}

/// One of the list: nothing happens when it is offered as it is.
static void take_item(struct listing *l, const struct json *item)
{
    struct mcp_server *s = l->server;
    struct mcp_offer *o = offer_new(s, l->kind, item);
    struct mcp_offer *old = o != NULL ? map_get(&l->tools, str_of(o->tool)) : NULL;
    bool fit = o != NULL && judge(l, o, old);
    if (fit) {
        o->about = l->kind == GEN_TOOL ? tool_about(s, o) : prompt_about(o, item);
    }
    if (!fit || o->about == NULL) {
        if (o != NULL) {
            offer_unref(o);
        }
        return;
    }
    l->n++;
    if (old != NULL && strcmp(old->about, o->about) == 0) {
        old->seen = true;
        offer_unref(o);
        return;
    }
    o->seen = true;
    remember(l, o);
    if (old != NULL) {
        take_back(old);
        for (size_t i = 0; i < s->offers.n; i++) {
            s->offers.p[i] = s->offers.p[i] == old ? o : s->offers.p[i];
        }
        offer_unref(old);
    } else {
        vec_push(&s->offers, o);
    }
    put_item(s, o);
}

/// Warn about what is left out of a list for lack of room, or take the warning back.
static void warn_left_out(const struct listing *l, size_t listed)
{
    const struct mcp_server *s = l->server;
    const char *name = s->spec->name;
    bool many = l->n == OFFERS_MAX && listed > OFFERS_MAX, tools = l->kind == GEN_TOOL;
    if (!many && l->refused == 0) {
        if (tools) {
            gen_unwarn(s->all->o.engine, DIAG_LIMIT_REACHED, s->document);
        }
        return;
    }
    char *message =
        many ? xasprintf("MCP server '%s' lists %zu %s: only the first %d are offered", name,
                         listed, tools ? "tools" : "prompts", OFFERS_MAX)
             : xasprintf("%zu new tools of MCP server '%s' are not offered: %zu names of its tools "
                         "are kept, and no more can be",
                         l->refused, name, s->approved.n);
    log_warn(LOG_HUB, "mcp=%s reason=%s", LOGQ(str_of(name)).z, LOGQ(str_of(message)).z);
    if (tools) {
        gen_warn(s->all->o.engine,
                 &(struct gen_diag){
                     .code = DIAG_LIMIT_REACHED,
                     .source = "hub",
                     .path = s->document,
                     .message = message,
                     .hint = many ? "name the tools that you need with `tools` in its settings"
                                  : "stop the hub and delete this file to approve its tools anew"});
    }
    free(message);
}

void mcp__offer_list(struct mcp_server *s, enum mcp_list list, const struct json *items)
{
    struct listing l = {.server = s, .kind = list == MCP_TOOLS ? GEN_TOOL : GEN_COMMAND};
    assert(list == MCP_TOOLS || list == MCP_PROMPTS);
    vec_foreach (it, &s->offers) {
        (*it)->seen = (*it)->kind != l.kind;
        if (!(*it)->seen) {
            remember(&l, *it);
        }
    }
    for (size_t i = 0; l.n < OFFERS_MAX && i < items->n; i++) {
        take_item(&l, json_at(items, i));
    }
    if (s->tested == NULL) {
        warn_left_out(&l, items->n);
    }
    for (size_t i = 0; i < s->offers.n;) {
        struct mcp_offer *o = s->offers.p[i];
        if (o->seen) {
            i++;
            continue;
        }
        take_back(o);
        vec_remove(&s->offers, i);
        offer_unref(o);
    }
    map_fini(&l.tools);
    map_fini(&l.names);
    if (l.news && s->tested == NULL) {
        mcp__approvals_write(s);
    }
}

void mcp__withdraw(struct mcp_server *s)
{
    vec_foreach (it, &s->offers) {
        take_back(*it);
        offer_unref(*it);
    }
    s->offers.n = 0;
}

void mcp__offers_free(struct mcp_server *s)
{
    vec_fini_each(&s->offers, offer_unref);
}
