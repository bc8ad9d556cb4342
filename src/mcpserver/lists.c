// What clients see: tools, prompts, resources and templates as JSON, in a fixed order.
//
// Tools come from agent_tool_list(), as does what a call finds; prompts and resources are items of the generation, in
// load order. The texts are made on request, and kept until another generation or other settings are in force:
// a list of a thousand tools is then one copy.

#include "agent/agent.h"
#include "config/config.h"
#include "gen/engine.h"
#include "mcpserver/mcp_int.h"

/// A member under the name that MCP has for it, if it is there.
static void write_as(struct jw *w, const struct json *about, const char *key, const char *as)
{
    const struct json *v = json_get(about, key);
    if (v != NULL) {
        jw_kvalue(w, as, v);
    }
}

static void write_tools(struct mcpserver *s, const struct mcp_view *v, struct arena *a,
                        struct jw *w)
{
    const struct agent_tool *tools;
    size_t n = agent_tool_list(s->o.agent, v->dir, a, &tools);
    for (size_t i = 0; i < n; i++) {
        const struct json *about = gen_item_read_about(tools[i].item, a);
        jw_obj(w);
        jw_kstr(w, "name", tools[i].name);
        write_as(w, about, "title", "title");
        write_as(w, about, "description", "description");
        const struct json *schema = json_get(about, "input_schema");
        jw_kobj(w, "inputSchema"); // of an object, whatever else it says
        if (json_get(schema, "type") == NULL) {
            jw_kstrz(w, "type", "object");
        }
        json_foreach_member (m, schema) {
            jw_key_str(w, m->key);
            jw_value(w, &m->value);
        }
        jw_end_obj(w);
        write_as(w, about, "output_schema", "outputSchema");
        write_as(w, about, "annotations", "annotations");
        jw_end_obj(w);
    }
    mcp_operations__list(s, w);
}

static void write_prompt(const struct gen *g, const struct gen_item *it, const struct json *about,
                         struct jw *w)
{
    jw_obj(w);
    if (gen_item_is_plain(g, it)) {
        jw_kstrz(w, "name", gen_item_name(it));
    } else {
        jw_key(w, "name");
        jw_strf(w, "%s:%s", gen_item_unit(it)->name, gen_item_name(it));
    }
    write_as(w, about, "title", "title");
    write_as(w, about, "description", "description");
    jw_karr(w, "arguments");
    json_foreach_item (arg, json_get(about, "arguments")) {
        jw_obj(w);
        write_as(w, arg, "name", "name");
        write_as(w, arg, "description", "description");
        write_as(w, arg, "required", "required");
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_end_obj(w);
}

bool mcp_lists__has(const struct mcpserver *s, const struct mcp_view *v, const struct gen_item *it,
                    enum gen_kind kind)
{
    return gen_item_kind(it) == kind && !gen_item_is_off(it) &&
           agent_reaches(s->o.agent, gen_item_unit(it), v->dir);
}

static void write_items(const struct mcpserver *s, const struct mcp_view *v, struct gen *g,
                        enum mcp_list which, struct arena *a, struct jw *w)
{
    enum gen_kind kind = which == MCP_PROMPTS ? GEN_MCP_PROMPT : GEN_MCP_RESOURCE;
    struct gen_walk all = gen_walk(g, kind);
    for (const struct gen_item *it; (it = gen_walk_next(&all)) != NULL;) {
        if (!mcp_lists__has(s, v, it, kind)) {
            continue;
        }
        const struct json *about = gen_item_read_about(it, a);
        bool is_template = json_bool(json_get(about, "template"), false);
        if (which == MCP_PROMPTS) {
            write_prompt(g, it, about, w);
        } else if (is_template == (which == MCP_TEMPLATES) && gen_item_is_plain(g, it)) {
            jw_obj(w);
            jw_kstrz(w, is_template ? "uriTemplate" : "uri", gen_item_name(it));
            write_as(w, about, "name", "name");
            write_as(w, about, "title", "title");
            write_as(w, about, "description", "description");
            write_as(w, about, "mimeType", "mimeType");
            jw_end_obj(w);
        }
    }
}

void mcp_lists__free(struct mcp_view *v)
{
    for (size_t i = 0; i < MCP__LISTS; i++) {
        free(v->lists[i]);
        v->lists[i] = NULL;
    }
}

struct str mcp_lists__text(struct mcpserver *s, struct mcp_view *v, enum mcp_list which)
{
    struct gen_engine *engine = api_engine(s->o.api);
    struct gen *g = engine != NULL ? gen_current(engine) : NULL;
    uint64_t number = g != NULL ? gen_number(g) : 0;
    // what is registered in one turn shares a number, so the generation itself counts too
    if (g != v->lists_gen || number != v->lists_number || v->lists_config != s->o.config->now) {
        mcp_lists__free(v);
        v->lists_gen = g;
        v->lists_number = number;
        v->lists_config = s->o.config->now;
    }
    if (v->lists[which] == NULL) {
        struct arena a = {0};
        struct buf text = {.max = SIZE_MAX};
        struct jw w = {.out = &text};
        jw_arr(&w);
        if (g != NULL && which == MCP_TOOLS) {
            write_tools(s, v, &a, &w);
        } else if (g != NULL) {
            write_items(s, v, g, which, &a, &w);
        }
        jw_end_arr(&w);
        arena_fini(&a);
        v->lists[which] = buf_take(&text, NULL);
    }
    return str_of(v->lists[which]);
}
