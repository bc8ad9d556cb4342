// The methods of both eras. What a client may ask is one table; the larger ones have files of their own.

#include "mcpserver/mcp_int.h"

static void run_ping(struct mcp_call *c)
{
    mcp_call__begin(c);
    mcp_call__end(c);
}

static void run_set_level(struct mcp_call *c)
{
    int level = mcp__level(json_get_text(c->params, "level"));
    if (level < 0) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "'level' is not a level of syslog");
        return;
    }
    c->post->session->level = level;
    run_ping(c);
}

static void write_capabilities(struct jw *w, bool modern)
{
    static const char *const lists[] = {"tools", "prompts", "resources"};
    jw_kobj(w, "capabilities");
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        jw_kobj(w, lists[i]);
        jw_kbool(w, "listChanged", true);
        if (i == 2) {
            jw_kbool(w, "subscribe", true);
        }
        jw_end_obj(w);
    }
    jw_kobj(w, "completions");
    jw_end_obj(w);
    if (!modern) {
        jw_kobj(w, "logging");
        jw_end_obj(w);
    }
    jw_end_obj(w);
    jw_kstrz(w, "instructions",
             "Tools of the plugins of an Afloat hub. Plugins change while you are connected: list "
             "again when "
             "you are told that a list has changed.");
}

/// The session was made by http.c, with the version that both know.
static void run_initialize(struct mcp_call *c)
{
    struct jw *w = mcp_call__begin(c);
    jw_kstrz(w, "protocolVersion", mcp__versions[c->post->session->version]);
    write_capabilities(w, false);
    jw_kobj(w, "serverInfo");
    jw_kstrz(w, "name", "afloat");
    jw_kstrz(w, "title", "Afloat");
    jw_kstrz(w, "version", c->server->o.version);
    jw_end_obj(w);
    mcp_call__end(c);
}

static void run_discover(struct mcp_call *c)
{
    struct jw *w = mcp_call__begin(c);
    jw_karr(w, "supportedVersions");
    jw_strz(w, MCP_MODERN_VERSION);
    for (size_t i = 0; mcp__versions[i] != NULL; i++) {
        jw_strz(w, mcp__versions[i]);
    }
    jw_end_arr(w);
    write_capabilities(w, true);
    mcp_call__end(c);
}

/// There is one page.
static void run_list(struct mcp_call *c)
{
    if (json_get(c->params, "cursor") != NULL) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "unknown 'cursor': lists have one page");
        return;
    }
    struct str text = mcp_lists__text(c->server, c->view, c->method->list);
    struct jw *w = mcp_call__begin(c);
    jw_key(w, c->method->list_key);
    jw_raw(w, text);
    mcp_call__end(c);
}

enum { SUBSCRIPTIONS_MAX = 1024 };

static void run_subscribe(struct mcp_call *c)
{
    struct map *set = &c->post->session->subscribed;
    struct str uri = json_get_text(c->params, "uri");
    if (uri.n == 0 || set->n >= SUBSCRIPTIONS_MAX) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL,
                       uri.n == 0 ? "'uri' is missing" : "too many subscriptions");
        return;
    }
    map_set(set, uri, set); // any value: only the key counts
    run_ping(c);
}

static void run_unsubscribe(struct mcp_call *c)
{
    map_remove(&c->post->session->subscribed, json_get_text(c->params, "uri"));
    run_ping(c);
}

static const struct mcp_method methods[] = {
    {"initialize", .legacy = true, .run = run_initialize},
    {"ping", .legacy = true, .run = run_ping},
    {"logging/setLevel", .legacy = true, .run = run_set_level},
    {"resources/subscribe", .legacy = true, .run = run_subscribe},
    {"resources/unsubscribe", .legacy = true, .run = run_unsubscribe},
    {"server/discover", .modern = true, .cacheable = true, .run = run_discover},
    {"subscriptions/listen", .modern = true, .run = mcp_notify__listen},
    {"tools/list", .legacy = true, .modern = true, .cacheable = true, .run = run_list,
     .list_key = "tools", .list = MCP_TOOLS},
    {"tools/call", .legacy = true, .modern = true, .header_name = "name", .run = mcp_tools__call},
    {"prompts/list", .legacy = true, .modern = true, .cacheable = true, .run = run_list,
     .list_key = "prompts", .list = MCP_PROMPTS},
    {"prompts/get", .legacy = true, .modern = true, .header_name = "name",
     .run = mcp_offers__get_prompt},
    {"resources/list", .legacy = true, .modern = true, .cacheable = true, .run = run_list,
     .list_key = "resources", .list = MCP_RESOURCES},
    {"resources/templates/list", .legacy = true, .modern = true, .cacheable = true, .run = run_list,
     .list_key = "resourceTemplates", .list = MCP_TEMPLATES},
    {"resources/read", .legacy = true, .modern = true, .cacheable = true, .header_name = "uri",
     .run = mcp_offers__read_resource},
    {"completion/complete", .legacy = true, .modern = true, .run = mcp_offers__complete},
};

const struct mcp_method *mcp_method__find(struct str name, bool modern)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        const struct mcp_method *m = &methods[i];
        if (str_eqz(name, m->name) && (modern ? m->modern : m->legacy)) {
            return m;
        }
    }
    return NULL;
}
