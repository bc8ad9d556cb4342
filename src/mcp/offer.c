// A server's tools and prompts as contributions of its unit.
//
//     list ──> compare with what is offered ──┬─ new, changed: an item is added ──┐
//                                             └─ gone, changed: it is taken back ─┴─> one new generation
//
// Items of tools are named NAME__tool, those of prompts as the server has it (mcp:NAME:prompt with the unit). The
// unit's items are all that the rest of the hub knows of MCP. A schema is passed on as the server wrote it. Calls of
// items are in call.c.
//
// Invariant: an item holds a reference on its offer, and so does the server's list; an offer that a newer list replaced
// lives as long as a generation shows it.

#include <assert.h>

#include "base/linediff.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gen/result.h"
#include "mcp/server_int.h"

enum { OFFERS_MAX = 2000, DESCRIPTION_MAX = 16 * 1024, ABOUT_MAX = 1 << 20, DIFF_MAX = 32 * 1024 };

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
                                 .face = &mcp__offer_target,
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

/// Decide whether it is offered, and count it when the user has not agreed to it. `old`: the offer that it replaces, NULL:
/// none.
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
             : xasprintf("%zu new tools of MCP server '%s' are not offered: the record of its "
                         "approved tools is full (%zu)",
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
