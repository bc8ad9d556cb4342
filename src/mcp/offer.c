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
#include "base/utf8.h"
#include "gen/result.h"
#include "hook/args.h"
#include "mcp/server_int.h"

enum { OFFERS_MAX = 2000, DESCRIPTION_MAX = 16 * 1024, ABOUT_MAX = 1 << 20, DIFF_MAX = 32 * 1024 };

// ---- offers ---------------------------------------------------------------------------------

static void offer_unref(struct mcp_offer *o)
{
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
    free(o);
}

static struct mcp_offer *find(const struct mcp_server *s, enum gen_kind kind, const char *tool)
{
    vec_foreach (it, &s->offers) {
        if ((*it)->kind == kind && strcmp((*it)->tool, tool) == 0) {
            return *it;
        }
    }
    return NULL;
}

static bool name_taken(const struct mcp_server *s, const struct mcp_offer *but,
                       const struct mcp_offer *o)
{
    vec_foreach (it, &s->offers) {
        if (*it != but && (*it)->kind == o->kind && strcmp((*it)->name, o->name) == 0) {
            return true;
        }
    }
    return false;
}

static void write_schema(const struct json *item, struct jw *w)
{
    static const struct json object = {.type = JSON_OBJ};
    const struct json *schema = json_get(item, "inputSchema");
    jw_value(w, schema != NULL && schema->type == JSON_OBJ ? schema : &object);
}

static void set_mark(struct mcp_offer *o, const struct json *item)
{
    uint8_t digest[SHA256_SIZE];
    struct buf text = {.max = SIZE_MAX};
    buf_addf(&text, "%s\n", o->description);
    struct jw w = {.out = &text};
    write_schema(item, &w);
    sha256_of(buf_str(&text), digest);
    sha256_hex(digest, o->mark);
    buf_fini(&text);
}

/// What the item says. A tool that is not what the user agreed to keeps the description that he has seen, and
/// carries the difference.
static char *tool_about(const struct mcp_server *s, const struct mcp_offer *o,
                        const struct json *item)
{
    const struct mcp_approval *known = mcp__approval(s, o->tool);
    const char *shown = o->changed ? known->description : o->description;
    struct buf text = {.max = ABOUT_MAX}, diff = {.max = DIFF_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "description", shown);
    jw_key(&w, "input_schema");
    write_schema(item, &w);
    if (o->changed) {
        linediff_hunks(&diff, str_of(known->description), str_of(o->description));
        jw_kstrz(&w, "permission", "ask");
        jw_kstr(&w, "changed",
                diff.n != 0 ? buf_str(&diff) : STR("the schema of its input is another one"));
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
    struct str tool = json_get_text(item, "name");
    struct str description = json_get_text(item, "description");
    struct arena a = {0};
    if (tool.n == 0 || memchr(tool.p, '\0', tool.n) != NULL) {
        return NULL;
    }
    struct mcp_offer *o = xcalloc(1, sizeof *o);
    struct str cut = {description.p, utf8_cut(description.p, description.n, DESCRIPTION_MAX)};
    *o = (struct mcp_offer){.server = s, .kind = kind, .refs = 1, .tool = str_dup(tool)};
    o->name = kind == GEN_TOOL ? str_dup(mcp_name(&a, s->spec->name, tool)) : str_dup(tool);
    o->description = str_dup(cut);
    arena_fini(&a);
    return o;
}

// ---- calls ----------------------------------------------------------------------------------

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

static const char *const methods[] = {
    [CALL_TOOL] = "tools/call", [CALL_PROMPT] = "prompts/get", [CALL_RESOURCE] = "resources/read"};

void mcp__call_again(struct mcp_call *c, const struct json *answers, struct str state,
                     const struct err *e)
{
    struct buf members = {.max = SIZE_MAX};
    if (answers == NULL || c->server->peer == NULL) {
        static const struct err gone = {.code = UV_EPIPE, .msg = "it ended"};
        on_answer(&c->request, ERR_DENIED, NULL, e != NULL ? e : &gone);
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

/// The words of a command: NAME=VALUE, or the arguments in their order; the last one takes the rest.
static void write_prompt(struct buf *out, const struct mcp_offer *o, const struct json *words)
{
    struct jw w;
    size_t n = 0, at = 0;
    while (o->arguments[n] != NULL) {
        n++;
    }
    buf_addz(out, "\"name\":");
    jw_init(&w, out);
    jw_strz(&w, o->tool);
    buf_addz(out, ",\"arguments\":");
    jw_init(&w, out);
    jw_obj(&w);
    for (uint32_t i = 0; words != NULL && words->type == JSON_ARR && i < words->n; i++) {
        struct str word = json_str(&words->items[i], ""), value = word;
        struct str key = str_cut(&value, '=');
        ptrdiff_t named =
            value.p != NULL ? str_lookup(key, (const char *const *)o->arguments, n) : -1;
        if (named >= 0) {
            jw_kstr(&w, o->arguments[named], value);
        } else if (at + 1 == n) {
            struct buf rest = {.max = SIZE_MAX};
            for (; i < words->n; i++) {
                struct str more = json_str(&words->items[i], "");
                buf_addf(&rest, "%s" STR_FMT, rest.n != 0 ? " " : "", STR_ARG(more));
            }
            jw_kstr(&w, o->arguments[at++], buf_str(&rest));
            buf_fini(&rest);
        } else if (at < n) {
            jw_kstr(&w, o->arguments[at++], word);
        }
    }
    jw_end_obj(&w);
}

static void refuse(struct gen_call *call, const struct mcp_server *s)
{
    struct err e;
    err_set(&e, ERR_INVALID, "MCP server '%.60s' is %s%s%.140s", s->spec->name,
            s->state == MCP_STARTING ? "still starting" : "not running",
            s->error != NULL ? ": " : "", s->error != NULL ? s->error : "");
    call->done(call, e.code, NULL, &e);
}

/// Ask the server, which is ready. `call` is answered later.
static void begin(struct mcp_server *s, enum call_kind kind, struct gen_call *call,
                  struct str members, struct str name)
{
    struct mcp_call *c = xcalloc(1, sizeof *c);
    arena_init(&c->arena);
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
    mcp_peer_ask(s->peer, &c->request, methods[kind], members, name);
}

static bool is_ready(const struct mcp_server *s)
{
    return !s->closed && s->peer != NULL && s->state == MCP_READY;
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
    begin(s, prompt ? CALL_PROMPT : CALL_TOOL, call, buf_str(&members), str_of(o->tool));
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
    begin(s, CALL_RESOURCE, call, buf_str(&members), uri);
    buf_fini(&members);
}

void mcp__end_calls(struct mcp_server *s)
{
    while (s->calls != NULL) {
        struct mcp_call *c = s->calls;
        err_set(&c->why, ERR_INVALID, "MCP server '%.60s' was removed", s->spec->name);
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

static bool is_wanted(const struct mcp_spec *spec, const char *tool)
{
    bool wanted = spec->tools == NULL;
    for (size_t i = 0; spec->tools != NULL && spec->tools[i] != NULL && !wanted; i++) {
        wanted = strcmp(spec->tools[i], tool) == 0;
    }
    return wanted;
}

/// One of the list: nothing happens when it is offered as it is.
static void take_item(struct mcp_server *s, enum gen_kind kind, const struct json *item, bool *news)
{
    struct mcp_offer *o = offer_new(s, kind, item);
    if (o == NULL) {
        return;
    }
    struct mcp_offer *old = find(s, kind, o->tool);
    if (kind == GEN_TOOL) {
        set_mark(o, item);
        *news |= mcp__approve_new(s, o);
    }
    o->about = kind == GEN_TOOL ? tool_about(s, o, item) : prompt_about(o, item);
    bool bad = o->about == NULL || (kind == GEN_TOOL && !is_wanted(s->spec, o->tool)) ||
               name_taken(s, old, o) || (old == NULL && s->offers.n >= OFFERS_MAX) ||
               (old != NULL && old->seen); // named twice: the first counts
    if (bad || (old != NULL && strcmp(old->about, o->about) == 0)) {
        if (old != NULL && !bad) {
            old->seen = true;
        }
        offer_unref(o);
        return;
    }
    o->seen = true;
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

void mcp__offer_list(struct mcp_server *s, enum mcp_list list, const struct json *items)
{
    enum gen_kind kind = list == MCP_TOOLS ? GEN_TOOL : GEN_COMMAND;
    bool news = false;
    assert(list != MCP_RESOURCES);
    vec_foreach (it, &s->offers) {
        (*it)->seen = (*it)->kind != kind;
    }
    json_foreach_item (item, items) {
        take_item(s, kind, item, &news);
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
    if (news && s->tested == NULL) {
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
