// Registrations of a host become parts of a generation.
//
//     register{hook}              ──┐
//     register{tool, command, ...}──┼──> offers ── stage ──> gen_unit ── called: host_hook.c, host_offer.c,
//     register{event}             ──┘                                            host_route.c
//
// The host is hostile: a name is checked against a list, texts against a length, numbers are put
// into bounds, and the whole against a count. What it answers is a value like any other.
//
// A hook or tool can outlive the version that made it (a generation still holds it): each offer
// has a reference on the whole, and a host that is gone makes a call fail instead of a crash.

#include "plugin/host_unit.h"

#include <assert.h>
#include <stdio.h>

#include "base/schema.h"
#include "base/time.h"
#include "plugin/host_unit_int.h"
#include "plugin/manifest.h"
#include "proto/events.h"

enum {
    OFFERS_MAX = 256,
    NAME_LEN = 64,
    MCP_NAME_MAX = 1024,
    ABOUT_MAX = 64 * 1024,
    PRIORITY_MAX = 1000,
    TIMEOUT_MAX_MS = 10000,    // of a hook of an improvement
    TIMEOUT_WHOLE_MS = 600000, // of a plugin's
    TOOL_MS = 30000,           // where nobody says how long
};

// ---- registering ---------------------------------------------------------------------------

static struct offer *add_offer(struct host_unit *u, enum offer_kind kind, struct str name)
{
    struct offer *o = xcalloc(1, sizeof *o);
    o->unit = u;
    o->kind = kind;
    o->name = str_dup(name);
    vec_push(&u->offers, o);
    return o;
}

static void offer_free(struct offer *o)
{
    free(o->name);
    free(o->title);
    free(o->filter);
    arena_fini(&o->arena);
    free(o);
}

static int64_t bounded(const struct json *v, int64_t low, int64_t high)
{
    return MIN(MAX(json_int(v, 0), low), high);
}

static int register_hook(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str point = json_str(json_get(what, "point"), "");
    const struct hook_point *p = hook_point_find(point);
    struct str title = json_str(json_get(what, "name"), "");
    struct str tool = json_str(json_get(what, "tool"), "");
    if (p == NULL || !(u->rules->whole || p->open)) {
        return err_set(e, ERR_DENIED, "hook point '" STR_FMT "' is not open here", STR_ARG(point));
    }
    if (title.n > NAME_LEN * 2 || tool.n > NAME_LEN * 2) {
        return err_set(e, ERR_TOO_LARGE, "a name of a hook is too long");
    }
    struct offer *o = add_offer(u, OFFER_HOOK, str_of(p->name));
    o->title = str_dup(title);
    o->filter = str_dup(tool);
    o->handler = json_int(json_get(what, "handler"), 0);
    o->how = p->kind;
    if (u->rules->whole && str_eqz(json_str(json_get(what, "on_error"), ""), "block")) {
        o->on_error = HOOK_BLOCK;
    }
    o->priority = (int)bounded(json_get(what, "priority"), -PRIORITY_MAX, PRIORITY_MAX);
    o->timeout_ms = (uint32_t)bounded(json_get(what, "timeout_ms"), 0,
                                      u->rules->whole ? TIMEOUT_WHOLE_MS : TIMEOUT_MAX_MS);
    return 0;
}

/// What people and models are told of an offer: these members of the message (NULL at the end), as they are.
static char *about_of(const struct json *what, const char *const *members)
{
    struct buf text = {.max = ABOUT_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    for (size_t i = 0; members[i] != NULL; i++) {
        const struct json *v = json_get(what, members[i]);
        if (v != NULL) {
            jw_kvalue(&w, members[i], v);
        }
    }
    jw_end_obj(&w);
    char *about = buf_ok(&text) ? buf_take(&text, NULL) : NULL;
    buf_fini(&text);
    return about;
}

/// Add an offer whose name no other of its kind has and that tells `members` about itself.
static int add_told(struct host_unit *u, enum offer_kind kind, const char *word, struct str name,
                    const struct json *what, const char *const *members, struct offer **out,
                    struct err *e)
{
    vec_foreach (o, &u->offers) {
        if ((*o)->kind == kind && str_eqz(name, (*o)->name)) {
            return err_set(e, ERR_CONFLICT, "%s '" STR_FMT "' is registered twice", word,
                           STR_ARG(name));
        }
    }
    char *about = about_of(what, members);
    if (about == NULL) {
        return err_set(e, ERR_TOO_LARGE, "what %s '" STR_FMT "' says of itself is too long", word,
                       STR_ARG(name));
    }
    *out = add_offer(u, kind, name);
    (*out)->title = about;
    return 0;
}

/// The same with a name like a plugin's.
static int add_named(struct host_unit *u, enum offer_kind kind, const char *word,
                     const struct json *what, const char *const *members, struct offer **out,
                     struct err *e)
{
    struct str name = json_str(json_get(what, "name"), "");
    if (!plugin_name_valid(name)) {
        return err_set(e, ERR_INVALID, "%s '%.*s' has no valid name: it has to be like 'roll-dice'",
                       word, (int)MIN(name.n, NAME_LEN), name.p);
    }
    return add_told(u, kind, word, name, what, members, out, e);
}

/// The same with a name that may be any text: MCP clients see it.
static int add_mcp(struct host_unit *u, enum offer_kind kind, const char *word, struct str name,
                   const struct json *what, const char *const *members, struct err *e)
{
    struct offer *o;
    if (name.n == 0 || name.n > MCP_NAME_MAX) {
        return err_set(e, ERR_INVALID, "%s: its name has 1 to %d bytes", word, MCP_NAME_MAX);
    }
    return add_told(u, kind, word, name, what, members, &o, e);
}

static int register_tool(struct host_unit *u, const struct json *what, struct err *e)
{
    static const char *const few[] = {"description", "input", "input_schema", NULL};
    static const char *const whole[] = {"description", "input_schema", "permission", "override",
                                        NULL};
    const struct json *schema = u->rules->whole ? json_get(what, "input_schema") : NULL;
    struct offer *o;
    if (schema_check(schema, e) < 0) {
        return err_prefix(e, "tool: input");
    }
    int rc = add_named(u, OFFER_TOOL, "tool", what, u->rules->whole ? whole : few, &o, e);
    if (rc == 0 && schema != NULL) {
        o->schema = json_clone(&o->arena, schema);
    }
    if (rc == 0 && u->rules->whole) {
        bool override = json_bool(json_get(what, "override"), false);
        o->naming = override ? GEN_NAME_OVERRIDE : GEN_NAME_PLAIN;
    }
    return rc;
}

/// Something that people type: with `"short": false` it is known as PLUGIN:NAME alone.
static int add_typed(struct host_unit *u, enum offer_kind kind, const char *word,
                     const struct json *what, const char *const *members, struct offer **out,
                     struct err *e)
{
    int rc = add_named(u, kind, word, what, members, out, e);
    if (rc == 0 && !json_bool(json_get(what, "short"), true)) {
        (*out)->naming = GEN_NAME_LONG;
    }
    return rc;
}

static int register_command(struct host_unit *u, const struct json *what, struct err *e)
{
    static const char *const members[] = {"description", NULL};
    struct offer *o;
    return add_typed(u, OFFER_COMMAND, "command", what, members, &o, e);
}

static int register_prompt(struct host_unit *u, const struct json *what, struct err *e)
{
    static const char *const members[] = {"priority", "text", NULL};
    struct offer *o;
    int rc = add_named(u, OFFER_PROMPT, "prompt", what, members, &o, e);
    if (rc == 0) {
        o->dynamic = json_get(what, "text") == NULL;
    }
    return rc;
}

/// `flag_type`, since `type` says which message it is.
static int register_flag(struct host_unit *u, const struct json *what, struct err *e)
{
    static const char *const members[] = {"default", "description", NULL};
    struct str type = json_str(json_get(what, "flag_type"), "boolean");
    struct offer *o;
    int rc = add_typed(u, OFFER_FLAG, "flag", what, members, &o, e);
    if (rc == 0 && plugin_name_valid(type)) {
        char *about = xasprintf("{\"type\":\"" STR_FMT "\",%s", STR_ARG(type), o->title + 1);
        free(o->title);
        o->title = about;
    }
    return rc;
}

static int register_provider(struct host_unit *u, const struct json *what, struct err *e)
{
    static const char *const members[] = {"description", "models", NULL};
    struct offer *o;
    json_foreach_item (name, json_get(what, "models")) {
        if (name->type != JSON_STR) {
            return err_set(e, ERR_INVALID, "provider: 'models' must be a list of names");
        }
    }
    return add_named(u, OFFER_PROVIDER, "provider", what, members, &o, e);
}

static int register_mcp_prompt(struct host_unit *u, const struct json *what, struct err *e)
{
    static const char *const members[] = {"title", "description", "arguments", NULL};
    json_foreach_item (argument, json_get(what, "arguments")) {
        if (json_str(json_get(argument, "name"), "").n == 0) {
            return err_set(e, ERR_INVALID, "mcp.prompt: each of 'arguments' needs a 'name'");
        }
    }
    return add_mcp(u, OFFER_MCP_PROMPT, "mcp.prompt", json_str(json_get(what, "name"), ""), what,
                   members, e);
}

static int register_mcp_resource(struct host_unit *u, const struct json *what, struct err *e)
{
    static const char *const members[] = {"template", "name",   "title", "description",
                                          "mimeType", "values", NULL};
    struct str uri = json_str(json_get(what, "uri"), "");
    if (str_index(uri, ':') <= 0) {
        return err_set(e, ERR_INVALID,
                       "mcp.resource: '%.*s' is no address: it has to be like 'notes://today'",
                       (int)MIN(uri.n, NAME_LEN), uri.p);
    }
    return add_mcp(u, OFFER_MCP_RESOURCE, "mcp.resource", uri, what, members, e);
}

static int register_ui(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str key = json_str(json_get(what, "name"), "");
    if (key.n == 0 || key.n > NAME_LEN * 2) {
        return err_set(e, ERR_INVALID, "preserve_ui: a key has 1 to %d bytes", NAME_LEN * 2);
    }
    char *name = xasprintf("ui-key:" STR_FMT, STR_ARG(key));
    add_offer(u, OFFER_UI, str_of(name));
    free(name);
    return 0;
}

static int register_route(struct host_unit *u, const struct json *what, struct err *e)
{
    struct buf name = {.max = SIZE_MAX};
    int rc = gen_route_name(&name, json_str(json_get(what, "method"), ""),
                            json_str(json_get(what, "path"), ""), e);
    if (rc == 0) {
        add_offer(u, OFFER_ROUTE, buf_str(&name));
    } else {
        err_prefix(e, "route");
    }
    buf_fini(&name);
    return rc;
}

static int register_watch(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str path = json_str(json_get(what, "path"), "");
    struct offer *o = add_offer(u, OFFER_WATCH, path);
    int rc = host__watch_read(o, what, e);
    if (rc < 0) {
        offer_free(vec_pop(&u->offers));
    }
    return rc;
}

static int register_event(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str name = json_str(json_get(what, "name"), "");
    if (name.n > NAME_LEN * 2 || !(u->rules->whole || event_type_is_open(name))) {
        return err_set(e, ERR_DENIED, "that event is not open here");
    }
    add_offer(u, OFFER_EVENT, name);
    return 0;
}

// ---- being called ---------------------------------------------------------------------------

uint32_t host__tool_ms(const struct host_unit *u)
{
    return u->rules->tool_ms != NULL ? *u->rules->tool_ms : TOOL_MS;
}

void host__count(struct offer *o, uint64_t since_ns, bool failed)
{
    hook_stats_add(&o->stats, time_mono_ns() - since_ns);
    o->stats.errors += failed;
}

const struct hook_stats *host__stats(const void *data)
{
    return &((const struct offer *)data)->stats;
}

void host__release(void *data)
{
    struct offer *o = data;
    struct host_unit *u = o->unit;
    assert(o->held);
    o->held = false;
    if (o->gone) {
        offer_free(o);
    }
    host_unit_unref(u);
}

// ---- staging -------------------------------------------------------------------------------

/// A handler replaces those of the same point and name, whoever made them: so its name begins with
/// that of its unit, or one plugin could push another's out.
static int stage_hook(struct offer *o, struct gen_unit *g, struct gen_item **out, struct err *e)
{
    char *name = xasprintf("%s:%s", g->name, o->title);
    const struct hook_spec spec = {
        .point = str_of(o->name),
        .kind = o->how,
        .name = o->title[0] != '\0' ? str_of(name) : STR_NULL,
        .filter = str_of(o->filter),
        .terms = {.priority = o->priority,
                  .timeout_ms = o->timeout_ms,
                  .limit_ms = o->unit->rules->hook_ms,
                  .on_error = o->on_error,
                  .target = &host__hook_face,
                  .data = o},
    };
    int rc = gen_unit_hook(g, &spec, out, e);
    free(name);
    return rc;
}

static int stage_item(struct offer *o, struct gen_unit *g, struct gen_item **out, struct err *e)
{
    static const struct gen_item_ops item_ops = {.release = host__release};
    static const struct gen_item_ops watch_ops = {
        .start = host__watch_start, .stop = host__watch_stop, .release = host__release};
    static const struct {
        enum gen_kind kind;
        const void *face;
    } items[] = {
        [OFFER_TOOL] = {GEN_TOOL, &host__call_face},
        [OFFER_COMMAND] = {GEN_COMMAND, &host__call_face},
        [OFFER_PROMPT] = {GEN_PROMPT, &host__call_face},
        [OFFER_ROUTE] = {GEN_ROUTE, &host__route_face},
        [OFFER_EVENT] = {GEN_SUBSCRIPTION, NULL},
        [OFFER_FLAG] = {GEN_FLAG, NULL},
        [OFFER_UI] = {GEN_OUTPUT, NULL},
        [OFFER_PROVIDER] = {GEN_PROVIDER, &host__call_face},
        [OFFER_MCP_PROMPT] = {GEN_MCP_PROMPT, &host__call_face},
        [OFFER_MCP_RESOURCE] = {GEN_MCP_RESOURCE, &host__call_face},
        [OFFER_WATCH] = {GEN_WATCH, NULL},
    };
    bool fixed = o->kind == OFFER_PROMPT && !o->dynamic;
    const struct gen_item_spec spec = {
        .kind = items[o->kind].kind,
        .name = str_of(o->name),
        .about = o->title != NULL ? str_of(o->title) : STR_NULL,
        .naming = o->naming,
        .ops = o->kind == OFFER_WATCH ? &watch_ops : &item_ops,
        .face = fixed ? NULL : items[o->kind].face,
        .data = o,
    };
    return gen_unit_add(g, &spec, out, e);
}

struct host_unit *host_unit_new(const struct host_rules *rules, const struct host_args *args)
{
    struct host_unit *u = xcalloc(1, sizeof *u);
    u->refs = 1;
    u->rules = rules;
    u->args = args;
    return u;
}

void host_unit_unref(struct host_unit *u)
{
    assert(u == NULL || u->refs != 0);
    if (u == NULL || --u->refs != 0) {
        return;
    }
    vec_fini_each(&u->offers, offer_free);
    assert(u->jobs.n == 0);
    vec_fini(&u->jobs);
    free(u);
}

void host_unit_attach(struct host_unit *u, struct host *h)
{
    assert(u->host == NULL && h != NULL);
    u->host = h;
}

void host_unit_detach(struct host_unit *u)
{
    u->host = NULL;
}

int host_unit_register(struct host_unit *u, const struct json *what, struct err *e)
{
    static const struct {
        const char *kind;
        int (*fn)(struct host_unit *u, const struct json *what, struct err *e);
        bool whole; // only where everything may be offered
    } kinds[] = {{"hook", register_hook, false},
                 {"tool", register_tool, false},
                 {"event", register_event, false},
                 {"command", register_command, true},
                 {"route", register_route, true},
                 {"prompt", register_prompt, true},
                 {"flag", register_flag, true},
                 {"preserve_ui", register_ui, true},
                 {"provider", register_provider, true},
                 {"mcp_prompt", register_mcp_prompt, true},
                 {"mcp_resource", register_mcp_resource, true},
                 {"watch", register_watch, true}};
    struct str kind = json_str(json_get(what, "kind"), "");
    if (u->offers.n >= OFFERS_MAX) {
        return err_set(e, ERR_TOO_LARGE, "more than %d registrations", OFFERS_MAX);
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (str_eqz(kind, kinds[i].kind) && (u->rules->whole || !kinds[i].whole)) {
            int rc = kinds[i].fn(u, what, e);
            if (rc == 0) {
                (*vec_last(&u->offers))->ref = json_int(json_get(what, "ref"), 0);
            }
            return rc;
        }
    }
    return err_set(e, ERR_UNSUPPORTED, "nothing of that kind can be registered here");
}

static int stage(struct offer *o, struct err *e)
{
    struct gen_unit *g = o->unit->gen;
    struct gen_item *it;
    assert(g != NULL);
    int rc = o->kind == OFFER_HOOK ? stage_hook(o, g, &it, e) : stage_item(o, g, &it, e);
    if (rc == 0) {
        o->item = gen_item_id(it);
        o->held = true;
        o->unit->refs++;
    }
    return rc;
}

int host_unit_add(struct host_unit *u, const struct json *what, struct err *e)
{
    int rc = host_unit_register(u, what, e);
    if (rc == 0 && u->gen != NULL && (rc = stage(*vec_last(&u->offers), e)) < 0) {
        offer_free(*vec_last(&u->offers));
        u->offers.n--;
    }
    return rc;
}

int host_unit_off(struct host_unit *u, int64_t ref, struct err *e)
{
    size_t i = 0;
    while (i < u->offers.n && (ref == 0 || u->offers.p[i]->ref != ref)) {
        i++;
    }
    if (i == u->offers.n) {
        return err_set(e, ERR_NOT_FOUND, "there is no registration %lld", (long long)ref);
    }
    struct offer *o = u->offers.p[i];
    vec_remove(&u->offers, i);
    if (!o->held) { // not staged, or replaced by another of its name
        offer_free(o);
        return 0;
    }
    o->gone = true;
    return gen_unit_off(u->gen, o->item, e); // may free it
}

void host_unit_stage(struct host_unit *u, struct gen_unit *g)
{
    assert(u->gen == NULL && g != NULL);
    u->gen = g;
    vec_foreach (it, &u->offers) {
        struct err e = {0};
        if (stage(*it, &e) < 0) {
            gen_unit_note(g, &(struct gen_diag){.code = DIAG_LOAD_FAILED, .message = e.msg});
        }
    }
}

static void on_shutdown(struct host_call *c, int status, const struct json *value,
                        const struct host_fault *fault)
{
    struct host_shutdown *s = container_of(c, struct host_shutdown, call);
    struct gen_life_call *life = s->life;
    const struct gen_diag d = {
        .code = status == ERR_TIMEOUT ? DIAG_SHUTDOWN_TIMEOUT : DIAG_SHUTDOWN_FAILED,
        .path = s->path,
        .message = status < 0 ? fault->message : NULL,
    };
    (void)value;
    assert(life != NULL);
    s->life = NULL;
    gen_life_done(life, status < 0 ? &d : NULL);
}

void host_unit_shutdown(struct host_shutdown *s, struct host *h, enum gen_reason why, uint32_t ms,
                        const char *path, struct gen_life_call *life)
{
    char fields[64];
    assert(s->life == NULL);
    if (!host_alive(h)) {
        gen_life_done(life, NULL);
        return;
    }
    snprintf(fields, sizeof fields, "\"reason\":\"%s\"", gen_reason_name(why));
    *s = (struct host_shutdown){
        .call = {.timeout_ms = ms, .done = on_shutdown}, .life = life, .path = path};
    host_call(h, &s->call, "shutdown", str_of(fields));
}

bool host_unit_hears(const struct host_unit *u, struct str event)
{
    for (size_t i = 0; i < u->offers.n; i++) {
        const struct offer *o = u->offers.p[i];
        if (o->kind == OFFER_EVENT && str_glob(str_of(o->name), event)) {
            return true;
        }
    }
    return false;
}

bool host_unit_listens(const struct host_unit *u)
{
    for (size_t i = 0; i < u->offers.n; i++) {
        if (u->offers.p[i]->kind == OFFER_EVENT) {
            return true;
        }
    }
    return false;
}
