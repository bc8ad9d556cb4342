#pragma once

#include "agent/tool.h"
#include "base/json.h"
#include "base/vec.h"
#include "gen/gen.h"

// The tools of one step: built in, the session's own, and those of its plugins. Everything lies in the
// step's arena and in the generation that the step pins.

struct choices;

/// Tools that need the session itself.
#define TOOLBOX_OWN(X)                                                                             \
    X(SKILL, "skill", TOOL_READS, "Read a skill: instructions for a kind of work, by its name.",   \
      "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},"                      \
      "\"required\":[\"name\"],\"additionalProperties\":false}")                                   \
    X(ASK_USER, "ask_user", TOOL_READS,                                                            \
      "Ask the user a question and wait for the answer. Only for what you cannot find out.",       \
      "{\"type\":\"object\",\"properties\":{\"question\":{\"type\":\"string\",\"minLength\":1},"   \
      "\"choices\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},"                         \
      "\"required\":[\"question\"],\"additionalProperties\":false}")                               \
    X(PLUGIN_SAVE, "plugin_save", TOOL_WRITES,                                                     \
      "Write a plugin in Lua for this session: tools, hooks and prompts of it are active from "    \
      "the "                                                                                       \
      "next step on. Answers with the report of the reload.",                                      \
      "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"                       \
      "\"content\":{\"type\":\"string\"}},\"required\":[\"name\",\"content\"],"                    \
      "\"additionalProperties\":false}")                                                           \
    X(PLUGIN_DIAGNOSTICS, "plugin_diagnostics", TOOL_READS,                                        \
      "What is wrong with plugins now: the report of the last reload.",                            \
      "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}")

enum toolbox_own {
    OWN_NONE,
#define X(id, ...) OWN_##id,
    TOOLBOX_OWN(X)
#undef X
};

struct tool_entry {
    struct str name; // as the model calls it
    struct str description;
    const struct json *schema; // NULL: anything
    enum tool_effect effect;
    bool asks;                       // wants a person's permission whatever the mode
    const struct tool_info *builtin; // one of these four
    enum toolbox_own own;
    bool kit; // a bot's
    struct gen_item *item;
};

struct toolbox {
    vec(struct tool_entry) list;
};

/// Who is left out.
struct toolbox_rules {
    const struct choices *choices; // tools.NAME.off
    char *const *disabled;         // of the session
    size_t n_disabled;
    const struct tool_info *kit; // tools of bots, the last one without a name; NULL: no bot's
};

/// Fill `t`, emptied first. Plain names belong to the plugin that owns them in `g`, when it is one of
/// `units`, else to the first of these; other tools of the same name are UNIT__NAME for the model.
void toolbox_fill(struct toolbox *t, const struct gen *g, struct gen_unit *const *units, size_t n,
                  const struct toolbox_rules *rules, struct arena *a);
void toolbox_fini(struct toolbox *t);

/// By the model's name, or UNIT:NAME; NULL when there is none.
const struct tool_entry *toolbox_find(const struct toolbox *t, struct str name);
/// `tools` of a request.
const struct json *toolbox_json(const struct toolbox *t, struct arena *a);
