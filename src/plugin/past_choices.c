// What was chosen by command, as part of what can be undone.
//
// Choices decide what units offer (a plugin that is off, a tool that is off, a flag), so a change of one
// is a change like a save. `chosen` has them as of the last record; a record has the former values of
// those that differ. Other choices (what a user allowed) cannot be undone.

#include "config/config.h"
#include "plugin/plugins_int.h"
#include "store/choices.h"

static bool is_ours(struct str key)
{
    static const char *const prefixes[] = {"plugins.", "plugin_entries", "features.", "tools.",
                                           "flags."};
    bool ours = false;
    for (size_t i = 0; i < ARRAY_LEN(prefixes) && !ours; i++) {
        ours = str_starts(key, prefixes[i]);
    }
    return ours;
}

/// A choice that is the same in both is none to undo.
static bool is_same(const struct json *a, const struct json *b)
{
    return a != NULL && b != NULL ? json_equal(a, b) : a == b;
}

void past__take_choices(struct plugins *ps, const struct json *all)
{
    struct buf b = {.max = SIZE_MAX};
    struct json *v = NULL;
    struct jw w = {.out = &b};
    jw_obj(&w);
    json_foreach_member (m, all) {
        if (is_ours(m->key)) {
            jw_key_str(&w, m->key);
            jw_value(&w, &m->value);
        }
    }
    jw_end_obj(&w);
    arena_fini(&ps->chosen_arena);
    int rc =
        json_parse(&v, &ps->chosen_arena, arena_str(&ps->chosen_arena, buf_str(&b)), NULL, NULL);
    ps->chosen = rc == 0 ? v : NULL;
    buf_fini(&b);
}

void past__note_choices(struct plugins *ps, struct jw *w, bool base)
{
    const struct json *all = choices_all(ps->opts.hub->choices);
    jw_obj(w);
    json_foreach_member (m, all) {
        const struct json *was = json_get_str(ps->chosen, m->key);
        if (is_ours(m->key) && !base && !is_same(was, &m->value)) {
            jw_key_str(w, m->key);
            jw_value(w, was);
        }
    }
    json_foreach_member (m, ps->chosen) {
        if (!base && json_get_str(all, m->key) == NULL) {
            jw_key_str(w, m->key);
            jw_value(w, &m->value);
        }
    }
    jw_end_obj(w);
    past__take_choices(ps, all);
}

void plugins_chosen(struct plugins *ps)
{
    const struct json *all = choices_all(ps->opts.hub->choices);
    bool differs = false;
    json_foreach_member (m, all) {
        differs =
            differs || (is_ours(m->key) && !is_same(json_get_str(ps->chosen, m->key), &m->value));
    }
    json_foreach_member (m, ps->chosen) {
        differs = differs || json_get_str(all, m->key) == NULL;
    }
    if (differs && !ps->stopped) {
        gen_bump(ps->opts.engine, "choice");
    }
}

void past__choose_again(struct plugins *ps, struct str key, const struct json *was)
{
    struct buf text = {.max = SIZE_MAX};
    if (was != NULL && was->type != JSON_NULL) {
        json_write(&text, was, 0);
    }
    choices_set(ps->opts.hub->choices, key, buf_str(&text), NULL, NULL);
    buf_fini(&text);
    if (str_eqz(key, "features.plugins")) {
        plugins_switch(ps, plugins_wanted(ps->opts.hub->choices, ps->opts.hub->config->now));
    }
}
