// Feature flags: a default from the settings, overridden by what was chosen by command.
//
// A choice is one member of choices.json, under the dotted name the setting has in config.toml
// ("features.plugins"), and wins over it unless it is a [policy]; config.toml is never rewritten. A change is answered, and
// told to the readers of events, when it is on disk; one that could not be written is taken back.
//
// Flags of plugins ("hello:loud") are features too: their default is what the plugin says, their key
// flags.PLUGIN.NAME, and who reads one asks for its value each time.

#include "api/handlers.h"
#include "api/plugin_int.h"
#include "proto/events.h"
#include "store/choices.h"

static const struct feature {
    const char *name, *key, *stage, *description;
} features[] = {
#define FEATURE(na, st, de) {.name = na, .key = "features." na, .stage = st, .description = de},
#include "api/features.def"
#undef FEATURE
};

/// What was chosen by command; NULL: the setting counts, as it always does when it is a [policy].
static const struct json *choice(const struct api *api, const struct feature *f)
{
    const struct json *v = choices_get(api->o.hub->choices, str_of(f->key));
    bool counts = v != NULL && v->type == JSON_BOOL;
    return counts && !config_is_policy(api->o.hub->config->now, f->key) ? v : NULL;
}

static bool is_enabled(const struct api *api, const struct feature *f)
{
    return json_bool(choice(api, f), config_bool(api->o.hub->config->now, f->key));
}

// ---- flags of plugins ----------------------------------------------------------------------

static const char *flag_key(const struct gen_item *it, struct arena *a)
{
    return arena_printf(a, "flags.%s.%s", gen_item_unit(it)->name, gen_item_name(it));
}

static void write_flag(const struct api *api, const struct gen_item *it, struct arena *a,
                       struct jw *w)
{
    const struct json *about = gen_item_read_about(it, a), *fallback = json_get(about, "default");
    const struct json *chosen = choices_get(api->o.hub->choices, str_of(flag_key(it, a)));
    const struct json *value = chosen != NULL ? chosen : fallback;
    jw_obj(w);
    jw_key(w, "name");
    jw_strf(w, "%s:%s", gen_item_unit(it)->name, gen_item_name(it));
    jw_kbool(w, "enabled", json_bool(value, false));
    jw_kvalue(w, "value", value);
    jw_kvalue(w, "default", fallback);
    jw_kbool(w, "overridden", chosen != NULL);
    jw_kstrz(w, "stage", "stable");
    jw_kstr(w, "description", json_get_text(about, "description"));
    jw_end_obj(w);
}

// ---- the list ------------------------------------------------------------------------------

void op_FEATURE_LIST(struct api *api, struct op_call *c)
{
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "features");
    for (size_t i = 0; i < ARRAY_LEN(features); i++) {
        const struct feature *f = &features[i];
        jw_obj(w);
        jw_kstrz(w, "name", f->name);
        jw_kbool(w, "enabled", is_enabled(api, f));
        jw_kbool(w, "default", config_bool(api->o.hub->config->now, f->key));
        jw_kbool(w, "overridden", choice(api, f) != NULL);
        jw_kstrz(w, "stage", f->stage);
        jw_kstrz(w, "description", f->description);
        jw_end_obj(w);
    }
    struct gen *g = api->engine != NULL ? gen_current(api->engine) : NULL;
    struct gen_walk flags = gen_walk(g, GEN_FLAG);
    for (const struct gen_item *it; (it = gen_walk_next(&flags)) != NULL;) {
        write_flag(api, it, c->arena, w);
    }
    jw_end_arr(w);
    op_end_obj(c, 200);
}

// ---- switching -----------------------------------------------------------------------------

static void fail_unknown(struct op_call *c, struct str name)
{
    const char *names[ARRAY_LEN(features)];
    char hint[120] = "`afloat feature list` shows them";
    for (size_t i = 0; i < ARRAY_LEN(features); i++) {
        names[i] = features[i].name;
    }
    const char *nearest = str_nearest(name, names, ARRAY_LEN(features));
    if (nearest != NULL) {
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    }
    op_fail(c, PROBLEM_NOT_FOUND, hint, "there is no feature '%.*s'", (int)MIN(name.n, 64), name.p);
}

struct change { // in the arena of the call
    struct op_call *call;
    const char *name; // as people say it
    bool enable;
    bool changes; // it was the other way round
    bool all;     // it is the feature that plugins hang on
};

static void answer_change(const struct change *ch)
{
    struct arena *a = ch->call->arena;
    struct api *api = ch->call->api;
    // without the braces: the answer and the event's fields alike
    const char *fields =
        arena_printf(a, "\"name\":\"%s\",\"enabled\":%s", ch->name, ch->enable ? "true" : "false");
    if (ch->changes && api->plugins != NULL) {
        plugins_chosen(api->plugins);
    }
    if (ch->changes) {
        event_emit(api->o.hub->events, str_of(event_infos[EVENT_FEATURE_CHANGED].type), STR_NULL,
                   str_of(fields));
    }
    op_answer(ch->call, 200, str_of(arena_printf(a, "{%s}", fields)));
}

static void on_taken_over(const struct gen_report *r, void *arg)
{
    const struct change *ch = arg;
    if (r != NULL) {
        answer_change(ch);
    } else {
        op_fail(ch->call, PROBLEM_STOPPING, NULL, "the hub is stopping");
    }
}

static void on_kept(void *arg, int status, const struct err *e)
{
    struct change *ch = arg;
    struct api *api = ch->call->api;
    if (status < 0) {
        op_fail(ch->call, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    } else if (ch->all && api->plugins != NULL) {
        plugins_switch(api->plugins, ch->enable);
        api__reload(api, STR_NULL, false, on_taken_over, ch);
    } else {
        answer_change(ch);
    }
}

static void choose(struct change ch, const char *key)
{
    struct change *copy = arena_alloc(ch.call->arena, sizeof *copy);
    *copy = ch;
    choices_set(ch.call->api->o.hub->choices, str_of(key), ch.enable ? STR("true") : STR("false"),
                on_kept, copy);
}

static void switch_flag(struct api *api, struct op_call *c, const struct gen_item *it, bool enable)
{
    const struct json *about = gen_item_read_about(it, c->arena);
    const char *key = flag_key(it, c->arena);
    const struct json *chosen = choices_get(api->o.hub->choices, str_of(key));
    if (!str_eqz(json_str(json_get(about, "type"), "boolean"), "boolean")) {
        op_fail(c, PROBLEM_CONFLICT, NULL, "flag '%s' is no switch", gen_item_name(it));
        return;
    }
    const struct json *value = chosen != NULL ? chosen : json_get(about, "default");
    choose((struct change){.call = c,
                           .name = arena_printf(c->arena, "%s:%s", gen_item_unit(it)->name,
                                                gen_item_name(it)),
                           .enable = enable,
                           .changes = json_bool(value, false) != enable},
           key);
}

static void switch_feature(struct api *api, struct op_call *c, bool enable)
{
    struct str name = api__name(c);
    struct gen *g = api->engine != NULL ? gen_current(api->engine) : NULL;
    const struct feature *f = features;
    while (f < features + ARRAY_LEN(features) && !str_eqz(name, f->name)) {
        f++;
    }
    const struct gen_item *flag =
        g != NULL && str_index(name, ':') > 0 ? gen_item_find(g, GEN_FLAG, name) : NULL;
    if (flag != NULL) {
        switch_flag(api, c, flag, enable);
    } else if (f == features + ARRAY_LEN(features)) {
        fail_unknown(c, name);
    } else if (config_is_policy(api->o.hub->config->now, f->key) && is_enabled(api, f) != enable) {
        const struct config_entry *e = config_find(api->o.hub->config->now, f->key);
        op_fail(c, PROBLEM_FORBIDDEN, "ask who administers this machine",
                "feature '%s' is switched %s by the [policy] in '%s' line %u", f->name,
                enable ? "off" : "on", e->path, e->line);
    } else {
        choose((struct change){.call = c,
                               .name = f->name,
                               .enable = enable,
                               .changes = is_enabled(api, f) != enable,
                               .all = strcmp(f->name, "plugins") == 0},
               f->key);
    }
}

void op_FEATURE_ENABLE(struct api *api, struct op_call *c)
{
    switch_feature(api, c, true);
}

void op_FEATURE_DISABLE(struct api *api, struct op_call *c)
{
    switch_feature(api, c, false);
}
