// Plugins: list, show, switch on and off, reload.
//
// None of it runs a plugin's code but the reload that follows a change. What a user chose by command is
// a line of choices.json ("plugins.NAME.enabled"); it is kept first, then the reload takes it over, and
// the answer is the row as it stands after both.

#include "api/handlers.h"
#include "api/plugin_int.h"
#include "plugin/improvements.h"
#include "store/choices.h"

struct str api__name(const struct op_call *c)
{
    return json_get_text(c->params, "name");
}

struct gen *api__current(struct api *api, struct op_call *c)
{
    struct gen *g = api->engine != NULL ? gen_current(api->engine) : NULL;
    if (g == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
    }
    return g;
}

bool api__plugins_on(const struct api *api)
{
    return plugins_wanted(api->o.hub->choices, api->o.hub->config->now);
}

bool api__require_plugins(struct api *api, struct op_call *c)
{
    if (!api__plugins_on(api)) {
        op_fail(c, PROBLEM_FEATURE_DISABLED, "afloat feature enable plugins",
                "Plugins feature is not enabled. Enable it in settings.");
        return false;
    }
    if (api->plugins == NULL) {
        op_fail(c, PROBLEM_FEATURE_DISABLED, "start the hub without --safe",
                "the hub was started without plugins");
        return false;
    }
    return api__current(api, c) != NULL;
}

void api__reload(struct api *api, struct str name, bool force, gen_report_cb *cb, void *arg)
{
    struct gen_request req = {.trigger = "api",
                              .names = name.n != 0 ? &name : NULL,
                              .n_names = name.n != 0,
                              .force = force,
                              .wait_all = true};
    if (api->engine != NULL) {
        gen_request(api->engine, &req, cb, arg);
    } else { // it went while the caller waited for a thread
        cb(NULL, arg);
    }
}

// ---- list, show, logs ------------------------------------------------------------------------

void op_PLUGIN_LIST(struct api *api, struct op_call *c)
{
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "plugins");
    for (size_t i = 0, n = api__row_count(api); i < n; i++) {
        struct api_row row = api__row_at(api, i);
        api__row_write(api, &row, false, w);
    }
    jw_end_arr(w);
    jw_kbool(w, "feature_enabled", api__plugins_on(api));
    op_end_obj(c, 200);
}

static void answer_row(struct api *api, struct op_call *c, bool whole)
{
    struct api_row row;
    if (!api__row_of(api, c, &row)) {
        return;
    }
    struct jw *w = op_begin(c);
    api__row_write(api, &row, whole, w);
    op_end(c, 200);
}

void op_PLUGIN_SHOW(struct api *api, struct op_call *c)
{
    answer_row(api, c, true);
}

void op_PLUGIN_LOGS(struct api *api, struct op_call *c)
{
    struct api_row row;
    if (!api__row_of(api, c, &row)) {
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_kstrz(w, "name", row.p.name);
    jw_karr(w, "lines");
    api->o.host.plugin_logs(api->o.host.arg, str_of(row.p.name), w);
    jw_end_arr(w);
    op_end_obj(c, 200);
}

// ---- enable, disable -------------------------------------------------------------------------

static void on_switched(const struct gen_report *r, void *arg)
{
    struct op_call *c = arg;
    if (r == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else {
        plugins_chosen(c->api->plugins);
        answer_row(c->api, c, false);
    }
}

static void on_chosen(void *arg, int status, const struct err *e)
{
    struct op_call *c = arg;
    if (status < 0) {
        op_fail(c, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    } else {
        api__reload(c->api, api__name(c), false, on_switched, c);
    }
}

static void switch_plugin(struct api *api, struct op_call *c, bool on)
{
    struct api_row row;
    if (!api__require_plugins(api, c) || !api__row_of(api, c, &row)) {
        return;
    }
    if (row.inside) {
        api__refuse_inside(c, &row);
    } else if (row.scope != NULL && !on) {
        op_fail(c, PROBLEM_CONFLICT, "afloat plugin remove NAME moves its file to the trash",
                "an improvement is not switched off but removed");
    } else if (row.scope != NULL) { // it has a scope, not a switch: active in all sessions now
        struct str name = str_from(str_of(row.p.name), strlen(API_IMPROVEMENTS));
        if (api->improvements != NULL) {
            scopes_set(improvements_scopes(api->improvements), name, SCOPE_ALL, STR_NULL);
        }
        answer_row(api, c, false);
    } else if (row.p.required && !on) {
        op_fail(c, PROBLEM_PLUGIN_REQUIRED, "take `required` out of its entry in config.toml first",
                "plugin '%s' is required and cannot be switched off", row.p.name);
    } else {
        const char *key = arena_printf(c->arena, "plugins.%s.enabled", row.p.name);
        choices_set(api->o.hub->choices, str_of(key), on ? STR("true") : STR("false"), on_chosen,
                    c);
    }
}

void op_PLUGIN_ENABLE(struct api *api, struct op_call *c)
{
    switch_plugin(api, c, true);
}

void op_PLUGIN_DISABLE(struct api *api, struct op_call *c)
{
    switch_plugin(api, c, false);
}

// ---- reload ----------------------------------------------------------------------------------

static void on_reloaded(const struct gen_report *r, void *arg)
{
    struct op_call *c = arg;
    struct api_row row;
    struct buf out = {.max = API_ANSWER_MAX};
    if (r == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return;
    }
    if (!api__row_of(c->api, c, &row)) {
        return;
    }
    struct jw w = {.out = &out};
    jw_obj(&w);
    jw_kstrz(&w, "name", row.p.name);
    api__row_write_brief(&row, &w);
    jw_key(&w, "report");
    gen_report_write(r, &w);
    jw_end_obj(&w);
    api__answer_kept(c->api, c, buf_str(&out));
    buf_fini(&out);
}

void op_PLUGIN_RELOAD(struct api *api, struct op_call *c)
{
    struct api_row row;
    if (api__require_plugins(api, c) && api__row_of(api, c, &row)) {
        api__reload(api, api__name(c), true, on_reloaded, c);
    }
}
