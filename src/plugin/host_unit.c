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
    TOOL_MS = 30000,           // unless the settings say another time
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
    struct str point = json_get_text(what, "point");
    const struct hook_point *p = hook_point_find(point);
    struct str title = json_get_text(what, "name");
    struct str tool = json_get_text(what, "tool");
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
    if (u->rules->whole && str_eqz(json_get_text(what, "on_error"), "block")) {
        o->on_error = HOOK_BLOCK;
    }
    o->priority = (int)bounded(json_get(what, "priority"), -PRIORITY_MAX, PRIORITY_MAX);
    o->timeout_ms = (uint32_t)bounded(json_get(what, "timeout_ms"), 0,
                                      u->rules->whole ? TIMEOUT_WHOLE_MS : TIMEOUT_MAX_MS);
    return 0;
}

/// Something that can be registered.
struct kind {
    const char *kind, *word; // in the message; in errors
    bool whole;              // only where everything may be offered
    enum offer_kind offer;
    int (*fn)(struct host_unit *u, const struct json *what, struct err *e); // NULL: register_told()
    const char *about[7]; // members of the message that people and models are told, as they are
};

/// Refuse what one kind of offer does not allow.
static int check_told(const struct host_unit *u, enum offer_kind kind, const struct json *what,
                      struct err *e)
{
    struct str uri = json_get_text(what, "uri");
    bool tool = kind == OFFER_TOOL && u->rules->whole;
    int rc = tool ? schema_check(json_get(what, "input_schema"), e) : 0;
    if (rc < 0 && rc != ERR_UNSUPPORTED) {
        return err_prefix(e, "tool: input");
    }
    json_foreach_item (name, kind == OFFER_PROVIDER ? json_get(what, "models") : NULL) {
        if (name->type != JSON_STR) {
            return err_set(e, ERR_INVALID, "provider: 'models' must be a list of names");
        }
    }
    json_foreach_item (argument, kind == OFFER_MCP_PROMPT ? json_get(what, "arguments") : NULL) {
        if (json_get_text(argument, "name").n == 0) {
            return err_set(e, ERR_INVALID, "mcp.prompt: each of 'arguments' needs a 'name'");
        }
    }
    if (kind == OFFER_MCP_RESOURCE && str_index(uri, ':') <= 0) {
        return err_set(e, ERR_INVALID,
                       "mcp.resource: '%.*s' is no address: it has to be like 'notes://today'",
                       (int)MIN(uri.n, NAME_LEN), uri.p);
    }
    return 0;
}

/// Add an offer whose name no other of its kind has and that tells something about itself. Its name is like a
/// plugin's, but for those that MCP clients see: they may be any text.
static int register_told(struct host_unit *u, const struct kind *k, const struct json *what,
                         struct err *e)
{
    bool mcp = k->offer == OFFER_MCP_PROMPT || k->offer == OFFER_MCP_RESOURCE;
    struct str name = json_get_text(what, k->offer == OFFER_MCP_RESOURCE ? "uri" : "name");
    int rc = check_told(u, k->offer, what, e);
    if (rc < 0) {
        return rc;
    }
    if (mcp && (name.n == 0 || name.n > MCP_NAME_MAX)) {
        return err_set(e, ERR_INVALID, "%s: its name has 1 to %d bytes", k->word, MCP_NAME_MAX);
    }
    if (!mcp && !plugin_name_valid(name)) {
        return err_set(e, ERR_INVALID, "%s '%.*s' has no valid name: it has to be like 'roll-dice'",
                       k->word, (int)MIN(name.n, NAME_LEN), name.p);
    }
    vec_foreach (o, &u->offers) {
        if ((*o)->kind == k->offer && str_eqz(name, (*o)->name)) {
            return err_set(e, ERR_CONFLICT, "%s '" STR_FMT "' is registered twice", k->word,
                           STR_ARG(name));
        }
    }
    struct buf about = {.max = ABOUT_MAX};
    struct jw w = {.out = &about};
    jw_obj(&w);
    if (k->offer == OFFER_FLAG) { // `flag_type`, since `type` says which message it is
        struct str type = json_str(json_get(what, "flag_type"), "boolean");
        if (plugin_name_valid(type)) {
            jw_kstr(&w, "type", type);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(k->about) && k->about[i] != NULL; i++) {
        const struct json *v = json_get(what, k->about[i]);
        if (v != NULL) {
            jw_kvalue(&w, k->about[i], v);
        }
    }
    jw_end_obj(&w);
    if (!buf_ok(&about)) {
        buf_fini(&about);
        return err_set(e, ERR_TOO_LARGE, "what %s '" STR_FMT "' says of itself is too long",
                       k->word, STR_ARG(name));
    }
    struct offer *o = add_offer(u, k->offer, name);
    o->title = buf_take(&about, NULL);
    o->dynamic = k->offer == OFFER_PROMPT && json_get(what, "text") == NULL;
    if (k->offer == OFFER_TOOL && u->rules->whole) {
        const struct json *schema = json_get(what, "input_schema");
        bool checked = schema_check(schema, NULL) == 0; // else it uses what only the tool can check
        o->schema = checked ? json_clone(&o->arena, schema) : NULL;
        o->naming =
            json_bool(json_get(what, "override"), false) ? GEN_NAME_OVERRIDE : GEN_NAME_PLAIN;
    } else if ((k->offer == OFFER_COMMAND || k->offer == OFFER_FLAG) &&
               !json_bool(json_get(what, "short"), true)) {
        o->naming = GEN_NAME_LONG; // known as PLUGIN:NAME alone
    }
    return 0;
}

static int register_ui(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str key = json_get_text(what, "name");
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
    int rc = gen_route_name(&name, json_get_text(what, "method"), json_get_text(what, "path"), e);
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
    struct str path = json_get_text(what, "path");
    struct offer *o = add_offer(u, OFFER_WATCH, path);
    int rc = host__watch_read(o, what, e);
    if (rc < 0) {
        offer_free(vec_pop(&u->offers));
    }
    return rc;
}

static int register_event(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str name = json_get_text(what, "name");
    if (name.n > NAME_LEN * 2 || !(u->rules->whole || event_type_is_open(name))) {
        return err_set(e, ERR_DENIED, "that event is not open here");
    }
    add_offer(u, OFFER_EVENT, name);
    return 0;
}

/// The first that fits counts: what a tool says of itself depends on the rules.
static const struct kind kinds[] = {
    {.kind = "hook", .fn = register_hook},
    {.kind = "event", .fn = register_event},
    {"tool",
     "tool",
     true,
     OFFER_TOOL,
     NULL,
     {"description", "input_schema", "permission", "override"}},
    {"tool", "tool", false, OFFER_TOOL, NULL, {"description", "input", "input_schema"}},
    {"command", "command", true, OFFER_COMMAND, NULL, {"description"}},
    {"prompt", "prompt", true, OFFER_PROMPT, NULL, {"priority", "text"}},
    {"flag", "flag", true, OFFER_FLAG, NULL, {"default", "description"}},
    {"provider", "provider", true, OFFER_PROVIDER, NULL, {"description", "models"}},
    {"mcp_prompt",
     "mcp.prompt",
     true,
     OFFER_MCP_PROMPT,
     NULL,
     {"title", "description", "arguments"}},
    {"mcp_resource",
     "mcp.resource",
     true,
     OFFER_MCP_RESOURCE,
     NULL,
     {"template", "name", "title", "description", "mimeType", "values"}},
    {.kind = "route", .whole = true, .fn = register_route},
    {.kind = "preserve_ui", .whole = true, .fn = register_ui},
    {.kind = "watch", .whole = true, .fn = register_watch},
};

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

void host__note(struct gen_unit *g, const char *what, const struct host_fault *f)
{
    struct gen_diag d = host_diag(f, g->path);
    char *message =
        xasprintf("%s%s%s", what != NULL ? what : "", what != NULL ? ": " : "", f->message);
    d.message = message;
    d.hook = what;
    gen_unit_fault(g, &d);
    free(message);
}

void host__note_call(const struct offer *o, int rc, const struct err *why,
                     const struct host_fault *fault)
{
    static const char *const names[] = {[OFFER_TOOL] = "tool",
                                        [OFFER_COMMAND] = "command",
                                        [OFFER_PROMPT] = "prompt",
                                        [OFFER_ROUTE] = "route",
                                        [OFFER_PROVIDER] = "provider",
                                        [OFFER_MCP_PROMPT] = "mcp.prompt",
                                        [OFFER_MCP_RESOURCE] = "mcp.resource"};
    const struct host_fault judged = {.code = DIAG_HOOK_FAILED, .message = why->msg};
    if (rc == 0 || rc == UV_EPIPE || o->unit->gen == NULL) {
        return; // the end of a host is a fault of its own
    }
    char *what = xasprintf("%s '%s'", names[o->kind], o->name);
    host__note(o->unit->gen, what, fault != NULL ? fault : &judged);
    free(what);
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

/// A handler replaces any other of the same point and name. So its name begins with that of its unit: a plugin cannot
/// replace the handlers of another one.
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

struct host_unit *host_unit_new(const struct host_rules *rules)
{
    struct host_unit *u = xcalloc(1, sizeof *u);
    u->refs = 1;
    u->rules = rules;
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
    struct str kind = json_get_text(what, "kind");
    if (u->offers.n >= OFFERS_MAX) {
        return err_set(e, ERR_TOO_LARGE, "more than %d registrations", OFFERS_MAX);
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct kind *k = &kinds[i];
        if (str_eqz(kind, k->kind) && (u->rules->whole || !k->whole)) {
            int rc = k->fn != NULL ? k->fn(u, what, e) : register_told(u, k, what, e);
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
        offer_free(vec_pop(&u->offers));
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
        if (o->kind == OFFER_EVENT && (event.p == NULL || str_glob(str_of(o->name), event))) {
            return true;
        }
    }
    return false;
}
