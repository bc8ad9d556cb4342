// Reloads: ask for one, and what the last one said.

#include <assert.h>

#include "api/api_int.h"
#include "api/handlers.h"
#include "api/plugin_int.h"
#include "fleet/fleet.h"
#include "gen/engine.h"

enum { NAMES_MAX = 256 };

/// An answer that waits for the disk, in the arena of its call.
struct kept {
    struct op_call *call;
    struct str json;
};

static void on_kept(void *arg)
{
    const struct kept *k = arg;
    op_answer(k->call, 200, k->json);
}

void api__answer_kept(struct api *api, struct op_call *c, struct str json)
{
    struct kept *k = arena_alloc(c->arena, sizeof *k);
    *k = (struct kept){.call = c, .json = arena_str(c->arena, json)};
    if (api->plugins != NULL) {
        plugins_await_saved(api->plugins, on_kept, k);
    } else {
        on_kept(k);
    }
}

/// A request for a report, in the arena of its call.
struct asked {
    struct op_call *call;
    bool all_hubs;          // the other hubs get the plugins too
    struct fleet_roll roll; // then: which
    struct str report;      // and meanwhile
};

/// The report of this hub and what became of the others; `fields` are members of an object.
static void answer_rolled(const struct asked *a, bool ok, struct str fields)
{
    struct json *report = NULL;
    struct buf out = {.max = SIZE_MAX};
    int rc = json_parse(&report, a->call->arena, a->report, NULL, NULL);
    assert(rc == 0); // we wrote it
    (void)rc;
    struct jw w = {.out = &out};
    jw_obj(&w);
    json_foreach_member (m, report) {
        jw_key_str(&w, m->key);
        if (str_eqz(m->key, "ok")) {
            jw_bool(&w, ok && json_bool(&m->value, false));
        } else {
            jw_value(&w, &m->value);
        }
    }
    jw_end_obj(&w);
    out.n--; // more members follow
    buf_addf(&out, ",%.*s}", (int)fields.n, fields.p);
    api__answer_kept(a->call->api, a->call, buf_str(&out));
    buf_fini(&out);
}

static void on_rolled(void *arg, bool ok, struct str fields, const struct err *e)
{
    const struct asked *a = arg;
    if (e != NULL) {
        op_fail(a->call,
                e->code == ERR_CONFLICT || e->code == ERR_UNSUPPORTED ? PROBLEM_CONFLICT
                : e->code == ERR_INVALID                              ? PROBLEM_INVALID_BODY
                : e->code == ERR_TOO_LARGE                            ? PROBLEM_TOO_LARGE
                : e->code == ERR_DENIED                               ? PROBLEM_FORBIDDEN
                : e->code == UV_ECANCELED                             ? PROBLEM_STOPPING
                                                                      : PROBLEM_STORE_FAILED,
                NULL, "%s", e->msg);
    } else {
        answer_rolled(a, ok, fields);
    }
}

static void on_report(const struct gen_report *r, void *arg)
{
    struct asked *a = arg;
    struct buf out = {.max = SIZE_MAX};
    if (r == NULL) {
        op_fail(a->call, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return;
    }
    struct jw w = {.out = &out};
    gen_report_write(r, &w);
    a->report = arena_str(a->call->arena, buf_str(&out));
    buf_fini(&out);
    if (!a->all_hubs) {
        api__answer_kept(a->call->api, a->call, a->report);
    } else if (r->ok) {
        a->roll.previous = (int64_t)r->previous;
        fleet_roll_out(a->call->api->fleet, &a->roll, on_rolled, a);
    } else {
        answer_rolled(a, false,
                      STR("\"hubs\":[],\"stopped\":\"the plugins of this hub have errors: nothing "
                          "was sent to other hubs\""));
    }
}

static struct asked *asked_new(struct op_call *c)
{
    struct asked *a = arena_alloc(c->arena, sizeof *a);
    *a = (struct asked){.call = c};
    return a;
}

int api__undo(struct api *api, struct op_call *c, uint64_t to, struct err *e)
{
    return plugins_undo(api->plugins, to, on_report, asked_new(c), e);
}

/// The names of the request, checked; false when it was answered with a problem.
static bool read_names(struct api *api, struct op_call *c, struct str *names, size_t *n)
{
    const struct json *given = json_get(c->params, "names");
    const struct json *v;
    for (*n = 0; (v = json_at(given, *n)) != NULL; ++*n) {
        if (v->type != JSON_STR || *n == NAMES_MAX) {
            op_fail(c, PROBLEM_INVALID_BODY, NULL, "'names' must be an array of at most %d strings",
                    NAMES_MAX);
            return false;
        }
        names[*n] = json_str(v, "");
        if (!api->o.host.knows_unit(api->o.host.arg, names[*n])) {
            op_fail(c, PROBLEM_NOT_FOUND, "a module of the hub is called lua:lib.x, without .lua",
                    "there is nothing to reload called '%.*s'", (int)MIN(names[*n].n, 64),
                    names[*n].p);
            return false;
        }
    }
    return true;
}

/// False, answered: there are no other hubs to give the plugins to, or no plugins.
static bool require_fleet(struct api *api, struct op_call *c)
{
    if (api->fleet != NULL && fleet_shared(api->fleet)) {
        return api__require_plugins(api, c);
    }
    op_fail(c, PROBLEM_CONFLICT,
            "set [store] url in config.toml, on every machine; docs/guide/teams.md",
            "this hub works alone: 'all_hubs' needs a PostgreSQL store that hubs share");
    return false;
}

void op_RELOAD(struct api *api, struct op_call *c)
{
    struct str names[NAMES_MAX];
    struct gen_request req = {
        .trigger = "api",
        .names = names,
        .force = json_bool(json_get(c->params, "force"), false),
        .dry_run = json_bool(json_get(c->params, "dry_run"), false),
        .wait_all = true,
    };
    bool all_hubs = json_bool(json_get(c->params, "all_hubs"), false);
    if (api->engine == NULL || gen_current(api->engine) == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (read_names(api, c, names, &req.n_names) && (!all_hubs || require_fleet(api, c))) {
        struct asked *a = asked_new(c);
        struct str *kept = arena_calloc(c->arena, req.n_names + 1, sizeof *kept);
        memcpy(kept, names, req.n_names * sizeof *kept);
        a->all_hubs = all_hubs;
        a->roll =
            (struct fleet_roll){.names = kept, .n_names = req.n_names, .dry_run = req.dry_run};
        if (api->o.host.refresh_settings != NULL) {
            api->o.host.refresh_settings(api->o.host.arg);
        }
        gen_request(api->engine, &req, on_report, a);
    }
}

void op_RELOAD_LAST(struct api *api, struct op_call *c)
{
    const struct gen_report *r = api->engine != NULL ? gen_last_report(api->engine) : NULL;
    if (r == NULL) {
        op_fail(c, PROBLEM_NOT_FOUND, NULL, "nothing was loaded yet");
    } else {
        on_report(r, asked_new(c));
    }
}
