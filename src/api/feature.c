// Feature flags: a default from the settings, overridden by what was chosen by command.
//
// A choice is one member of choices.json, under the dotted name the setting has in config.toml
// ("features.plugins"), and wins over it; config.toml is never rewritten. A change is answered, and
// acted on, when it is on disk.

#include "api/api_int.h"
#include "api/handlers.h"
#include "proto/events.h"
#include "store/store.h"

static const struct feature {
    const char *name, *key, *stage, *description;
} features[] = {
#define FEATURE(na, st, de) {.name = na, .key = "features." na, .stage = st, .description = de},
#include "api/features.def"
#undef FEATURE
};
_Static_assert(ARRAY_LEN(features) <= API_FEATURES, "api_int.h has no room for another feature");

static struct api_choice *choice(struct api *api, const struct feature *f)
{
    return &api->features[f - features];
}

static bool is_enabled(struct api *api, const struct feature *f)
{
    const struct api_choice *ch = choice(api, f);
    return ch->made ? ch->enabled : config_bool(api->config, f->key);
}

void api__read_features(struct api *api, const struct json *choices)
{
    for (size_t i = 0; i < ARRAY_LEN(features); i++) {
        const struct json *v = json_get(choices, features[i].key);
        api->features[i].made = v != NULL && v->type == JSON_BOOL;
        api->features[i].enabled = json_bool(v, false);
    }
}

void op_FEATURE_LIST(struct api *api, struct op_call *c)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 64 * 1024);
    jw_init(&w, &out);
    jw_obj(&w);
    jw_key(&w, "features");
    jw_arr(&w);
    for (size_t i = 0; i < ARRAY_LEN(features); i++) {
        const struct feature *f = &features[i];
        jw_obj(&w);
        jw_kstrz(&w, "name", f->name);
        jw_kbool(&w, "enabled", is_enabled(api, f));
        jw_kbool(&w, "default", config_bool(api->config, f->key));
        jw_kbool(&w, "overridden", choice(api, f)->made);
        jw_kstrz(&w, "stage", f->stage);
        jw_kstrz(&w, "description", f->description);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    op_answer(c, 200, buf_str(&out));
    buf_fini(&out);
}

// ---- switching -----------------------------------------------------------------------------

static const struct feature *find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(features); i++) {
        if (str_eqz(name, features[i].name)) {
            return &features[i];
        }
    }
    return NULL;
}

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

struct change {
    struct api *api;
    struct op_call *call;
    const struct feature *feature;
    bool enable;
};

// {"name":"x","enabled":true}, without the braces: the answer and the event's fields alike.
static char *describe(const struct change *ch)
{
    return arena_printf(ch->call->arena, "\"name\":\"%s\",\"enabled\":%s", ch->feature->name,
                        ch->enable ? "true" : "false");
}

static void on_kept(void *arg, int status, const struct err *e)
{
    struct change *ch = arg;
    if (status < 0) {
        op_fail(ch->call, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    } else {
        const char *fields = describe(ch);
        bool changed = is_enabled(ch->api, ch->feature) != ch->enable;
        *choice(ch->api, ch->feature) = (struct api_choice){.made = true, .enabled = ch->enable};
        if (changed) {
            event_emit(ch->api->events, str_of(event_infos[EVENT_FEATURE_CHANGED].type), STR_NULL,
                       str_of(fields));
        }
        op_answer(ch->call, 200, str_of(arena_printf(ch->call->arena, "{%s}", fields)));
    }
    free(ch);
}

static void switch_feature(struct api *api, struct op_call *c, bool enable)
{
    struct str name = json_str(json_get(c->params, "name"), "");
    const struct feature *f = find(name);
    if (f == NULL) {
        fail_unknown(c, name);
        return;
    }
    struct change *ch = xcalloc(1, sizeof *ch);
    *ch = (struct change){.api = api, .call = c, .feature = f, .enable = enable};
    store_doc_set(api->store, STR("choices.json"), str_of(f->key),
                  enable ? STR("true") : STR("false"), on_kept, ch);
}

void op_FEATURE_ENABLE(struct api *api, struct op_call *c)
{
    switch_feature(api, c, true);
}

void op_FEATURE_DISABLE(struct api *api, struct op_call *c)
{
    switch_feature(api, c, false);
}
