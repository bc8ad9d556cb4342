// Which tools a step has.
//
// A name belongs to one tool. Tools of plugins come first: the engine lets one take a built-in's name only with
// `override`. APIs allow no colon in names, so PLUGIN:TOOL is PLUGIN__TOOL for a model; both names work.

#include "agent/toolbox.h"

#include <assert.h>

#include "agent/make.h"
#include "agent/tool_call_int.h"
#include "store/choices.h"

/// UNIT:NAME of a plugin's tool, the name of any other.
static struct str full_name(const struct tool_entry *e, struct arena *a)
{
    const struct gen_item *it = e->tool == &tool_call__plugin_tool ? e->data : NULL;
    return it != NULL ? str_of(arena_printf(a, "%s:%s", gen_item_unit(it)->name, gen_item_name(it)))
                      : e->name;
}

static bool is_chosen_off(const struct choices *c, struct str name, struct arena *a)
{
    const char *key = arena_printf(a, "tools." STR_FMT ".off", STR_ARG(name));
    return json_bool(choices_get(c, str_of(key)), false);
}

bool toolbox_is_off(const struct choices *c, const struct tool_entry *e, struct arena *a)
{
    return c != NULL && (is_chosen_off(c, e->name, a) || is_chosen_off(c, full_name(e, a), a));
}

/// Do the settings or the session switch it off?
static bool is_off(const struct toolbox_rules *r, const struct tool_entry *e, struct arena *a)
{
    bool off = toolbox_is_off(r->choices, e, a);
    struct str full = full_name(e, a);
    for (size_t i = 0; i < r->n_disabled && !off; i++) {
        off = str_eqz(e->name, r->disabled[i]) || str_eqz(full, r->disabled[i]);
    }
    return off;
}

static const struct tool_entry *find_exact(const struct toolbox *t, struct str name)
{
    vec_foreach (it, &t->list) {
        if (str_eq(it->name, name)) {
            return it;
        }
    }
    return NULL;
}

enum { NAME_MAX_LEN = 64 }; // of a tool; what every provider takes

// ---- of plugins ---------------------------------------------------------------------------------

/// Does the plain name belong to `it` among these units?
static bool owns_name(const struct toolbox *t, const struct gen *g, struct gen_unit *const *units,
                      size_t n, const struct gen_item *it)
{
    struct str name = str_of(gen_item_name(it));
    const struct gen_item *owner = gen_item_find(g, GEN_TOOL, name);
    for (size_t i = 0; owner != NULL && i < n; i++) {
        if (units[i] == gen_item_unit(owner)) {
            return owner == it;
        }
    }
    return find_exact(t, name) == NULL;
}

/// Does it have the name of a built-in tool that it may not replace?
static bool is_hidden(const struct toolbox_rules *r, const struct gen_item *it,
                      const struct json *about)
{
    struct str name = str_of(gen_item_name(it));
    bool builtin = tool_find(name) != NULL;
    for (const struct tool *t = r->kit; t != NULL && t->name != NULL && !builtin; t++) {
        builtin = str_eqz(name, t->name);
    }
    return builtin && !json_bool(json_get(about, "override"), false);
}

/// UNIT__NAME, made of characters and of a length that providers accept: one bad name makes them refuse the whole
/// request. Of a name that leaves no room the end is kept, where long names differ.
static const char *prefixed(struct arena *a, const char *unit, const char *name)
{
    size_t n = MIN(strlen(name), (size_t)NAME_MAX_LEN - 2), room = NAME_MAX_LEN - 2 - n;
    char *full = arena_printf(a, "%.*s__%s", (int)room, unit, name + strlen(name) - n);
    for (char *p = full; *p != '\0'; p++) {
        bool ok = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                  (*p >= '0' && *p <= '9') || *p == '_' || *p == '-';
        *p = ok ? *p : '_';
    }
    return full;
}

static void add_item(struct toolbox *t, const struct toolbox_rules *r, struct gen_item *it,
                     bool plain, struct arena *a)
{
    const struct json *about = gen_item_read_about(it, a);
    const char *unit = gen_item_unit(it)->name, *name = gen_item_name(it);
    struct tool_entry e = {.name = str_of(plain ? name : prefixed(a, unit, name)),
                           .description = json_get_text(about, "description"),
                           .schema = json_get(about, "input_schema"),
                           .asks = str_eqz(json_get_text(about, "permission"), "ask"),
                           .foreign = strcmp(gen_item_unit(it)->host, "mcp") == 0 ||
                                      json_bool(json_get(about, "unchecked"), false),
                           .changed = json_get_text(about, "changed"),
                           .tool = &tool_call__plugin_tool,
                           .data = it};
    if (!is_off(r, &e, a) && !(plain && is_hidden(r, it, about)) &&
        (plain || find_exact(t, e.name) == NULL)) {
        vec_push(&t->list, e);
    }
}

// ---- built in -----------------------------------------------------------------------------------

static void add_builtin(struct toolbox *t, const struct toolbox_rules *r, const struct tool *tool,
                        void *data, struct arena *a)
{
    struct tool_entry e = {.name = str_of(tool->name),
                           .description = str_of(tool->description),
                           .tool = tool,
                           .data = data};
    if (find_exact(t, e.name) == NULL && !is_off(r, &e, a)) {
        struct json *schema = NULL;
        int rc = json_parse(&schema, a, str_of(tool->schema), NULL, NULL);
        assert(rc == 0); // it is constant
        (void)rc;
        e.schema = schema;
        vec_push(&t->list, e);
    }
}

// ---- public -------------------------------------------------------------------------------------

void toolbox_fill(struct toolbox *t, const struct gen *g, struct gen_unit *const *units, size_t n,
                  const struct toolbox_rules *rules, struct arena *a)
{
    assert(g != NULL);
    t->list.n = 0;
    struct gen_walk tools = gen_walk_units(units, n, GEN_TOOL);
    for (struct gen_item *it; (it = gen_walk_next(&tools)) != NULL;) {
        add_item(t, rules, it, owns_name(t, g, units, n, it), a);
    }
    const struct tool *tool;
    for (size_t i = 0; (tool = tool_at(i)) != NULL; i++) {
        add_builtin(t, rules, tool, NULL, a);
    }
    for (tool = rules->kit; tool != NULL && tool->name != NULL; tool++) {
        add_builtin(t, rules, tool, rules->kit_data, a);
    }
    for (size_t i = 0; rules->only != NULL && i < t->list.n;) {
        const char *const *names = (const char *const *)rules->only->p;
        if (str_lookup(t->list.p[i].name, names, rules->only->n) < 0) {
            vec_remove(&t->list, i);
        } else {
            i++;
        }
    }
}

void toolbox_fini(struct toolbox *t)
{
    vec_fini(&t->list);
}

const struct tool_entry *toolbox_find(const struct toolbox *t, struct str name)
{
    const struct tool_entry *e = find_exact(t, name);
    ptrdiff_t colon = str_index(name, ':');
    if (e != NULL || colon < 0) {
        return e;
    }
    struct str unit = {name.p, (size_t)colon}, rest = str_from(name, (size_t)colon + 1);
    vec_foreach (it, &t->list) {
        const struct gen_item *item = it->tool == &tool_call__plugin_tool ? it->data : NULL;
        if (item != NULL && str_eqz(unit, gen_item_unit(item)->name) &&
            str_eqz(rest, gen_item_name(item))) {
            return it;
        }
    }
    return NULL;
}

const struct json *toolbox_json(const struct toolbox *t, struct arena *a)
{
    static const struct json anything = {.type = JSON_OBJ};
    struct json *list = make_arr(a, t->list.n);
    vec_foreach (it, &t->list) {
        struct json *tool = make_obj(a, 3);
        make_put(tool, "name", make_str(it->name));
        make_put(tool, "description", make_str(it->description));
        make_put(tool, "input_schema", it->schema != NULL ? *it->schema : anything);
        make_push(list, *tool);
    }
    return list;
}
