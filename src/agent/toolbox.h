#pragma once

#include "agent/tool.h"
#include "base/json.h"
#include "base/vec.h"
#include "gen/gen.h"

// The tools that can be called at one site: built-in ones, those of a bot and those of plugins. Everything is in
// the site's arena and in the generation that the site pins.

struct choices;

/// Names in the order in which they were given; the list owns them.
struct session_names {
    char **p;
    size_t n, cap;
};

struct tool_entry {
    struct str name; // as the model calls it
    struct str description;
    const struct json *schema; // NULL: anything
    bool asks;                 // the user is asked in every mode
    // its MCP server or plugin checks what our schema check does not know
    bool foreign;
    struct str changed; // how its description differs from what the user agreed to; may be empty
    const struct tool *tool; // how it runs; tool_call__plugin_tool for tools of plugins
    void *data;              // of a plugin's tool its gen_item, of a bot's tool agent_kit.arg
};

struct toolbox {
    vec(struct tool_entry) list;
};

/// Which tools are left out, and which a bot adds.
struct toolbox_rules {
    const struct choices *choices; // tools.NAME.off
    char *const *disabled;         // of the session
    size_t n_disabled;
    const struct session_names *only; // no others, by the names in the box; NULL: all
    const struct tool *kit;           // tools of bots, the last one without a name; NULL: no bot's
    void *kit_data;
};

/// Fill `t`, emptied first. Plain names belong to the plugin that owns them in `g`, when it is one of
/// `units`, else to the first of these; other tools of the same name are UNIT__NAME for the model.
void toolbox_fill(struct toolbox *t, const struct gen *g, struct gen_unit *const *units, size_t n,
                  const struct toolbox_rules *rules, struct arena *a);
/// Free the list; what it names belongs to the arena and the generation.
void toolbox_fini(struct toolbox *t);

/// Find a tool by the model's name or UNIT:NAME; NULL: there is none.
const struct tool_entry *toolbox_find(const struct toolbox *t, struct str name);
/// The member `tools` of a request, in the arena.
const struct json *toolbox_json(const struct toolbox *t, struct arena *a);
/// Is the tool switched off in `choices`, by its name in the box or as UNIT:NAME?
bool toolbox_is_off(const struct choices *c, const struct tool_entry *e, struct arena *a);
