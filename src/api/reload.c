// Reloads: ask for one, and what the last one said.

#include "api/api_int.h"
#include "api/handlers.h"
#include "api/plugin_int.h"
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
    struct api *api;
    struct op_call *call;
};

static void on_report(const struct gen_report *r, void *arg)
{
    const struct asked *a = arg;
    struct buf out;
    struct jw w;
    if (r == NULL) {
        op_fail(a->call, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return;
    }
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    gen_report_write(r, &w);
    api__answer_kept(a->api, a->call, buf_str(&out));
    buf_fini(&out);
}

static struct asked *asked_new(struct api *api, struct op_call *c)
{
    struct asked *a = arena_alloc(c->arena, sizeof *a);
    *a = (struct asked){.api = api, .call = c};
    return a;
}

int api__undo(struct api *api, struct op_call *c, uint64_t to, struct err *e)
{
    return plugins_undo(api->plugins, to, on_report, asked_new(api, c), e);
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
        if (!api->host.knows_unit(api->host.arg, names[*n])) {
            op_fail(c, PROBLEM_NOT_FOUND, "a module of the hub is called lua:lib.x, without .lua",
                    "there is nothing to reload called '%.*s'", (int)MIN(names[*n].n, 64),
                    names[*n].p);
            return false;
        }
    }
    return true;
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
    if (api->engine == NULL || gen_current(api->engine) == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (read_names(api, c, names, &req.n_names)) {
        if (api->host.refresh_settings != NULL) {
            api->host.refresh_settings(api->host.arg);
        }
        gen_request(api->engine, &req, on_report, asked_new(api, c));
    }
}

void op_RELOAD_LAST(struct api *api, struct op_call *c)
{
    const struct gen_report *r = api->engine != NULL ? gen_last_report(api->engine) : NULL;
    if (r == NULL) {
        op_fail(c, PROBLEM_NOT_FOUND, NULL, "nothing was loaded yet");
    } else {
        on_report(r, asked_new(api, c));
    }
}
