// Reloads: ask for one, and what the last one said.

#include "api/api_int.h"
#include "api/handlers.h"
#include "gen/engine.h"

enum { NAMES_MAX = 256 };

static void write_report(struct op_call *c, const struct gen_report *r)
{
    struct buf out;
    struct jw w;
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    gen_report_write(r, &w);
    op_answer(c, 200, buf_str(&out));
    buf_fini(&out);
}

static void on_report(const struct gen_report *r, void *arg)
{
    struct op_call *c = arg;
    if (r != NULL) {
        write_report(c, r);
    } else {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
    }
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
        gen_request(api->engine, &req, on_report, c);
    }
}

void op_RELOAD_LAST(struct api *api, struct op_call *c)
{
    const struct gen_report *r = api->engine != NULL ? gen_last_report(api->engine) : NULL;
    if (r == NULL) {
        op_fail(c, PROBLEM_NOT_FOUND, NULL, "nothing was loaded yet");
    } else {
        write_report(c, r);
    }
}
