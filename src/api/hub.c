// The hub itself: is it up, open it in a browser, stop it.

#include <unistd.h>

#include "api/api_int.h"
#include "api/handlers.h"
#include "base/time.h"
#include "fleet/fleet.h"
#include "store/store.h"

void api_write_health(const struct api *api, bool over_socket, uint64_t generation, uint64_t now_ms,
                      struct jw *w)
{
    char uptime[32]; // seconds with three decimals; no floating point, since this is asked most
    unsigned long long ms = now_ms - api->started_ms;
    int n = snprintf(uptime, sizeof uptime, "%llu.%03llu", ms / 1000, ms % 1000);
    jw_kbool(w, "ok", true);
    jw_kstrz(w, "version", api->o.version);
    jw_kint(w, "generation", (int64_t)generation);
    jw_key(w, "uptime_s");
    jw_raw(w, (struct str){uptime, (size_t)n});
    if (over_socket) {
        jw_kint(w, "pid", getpid());
        jw_kstrz(w, "listen", api->o.host.listen_address(api->o.host.arg));
    }
    api->o.host.degraded(api->o.host.arg, over_socket, w);
}

void op_HEALTH(struct api *api, struct op_call *c)
{
    struct jw *w = op_begin_obj(c);
    api_write_health(api, c->over_socket, (uint64_t)api_generation(api), loop_now(api->o.hub->loop),
                     w);
    const struct err *lost = store_trouble(api->o.hub->store);
    if (lost != NULL && c->over_socket) {
        jw_kstrz(w, "store_error", lost->msg);
    }
    op_end_obj(c, 200);
}

void op_HUB_OPEN(struct api *api, struct op_call *c)
{
    struct api_opened opened;
    struct err e = {0};
    bool ssh = json_bool(json_get(c->params, "ssh"), false);
    if (api->o.host.open_browser(api->o.host.arg, ssh,
                                 json_str(json_get(c->params, "working_dir"), NULL), &opened,
                                 &e) < 0) {
        enum problem p = e.code == ERR_DENIED        ? PROBLEM_FORBIDDEN
                         : e.code == ERR_UNREACHABLE ? PROBLEM_STOPPING
                                                     : PROBLEM_STORE_FAILED;
        op_fail(c, p, NULL, "%s", e.msg);
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_kstrz(w, "url", opened.url);
    jw_kint(w, "port", opened.port);
    jw_kint(w, "expires_s", opened.expires_s);
    op_end_obj(c, 200);
}

void op_HUB_STOP(struct api *api, struct op_call *c)
{
    op_answer(c, 202, STR("{\"ok\":true}"));
    api->o.host.stop(api->o.host.arg, "asked by a client");
}

// ---- the hubs that share a store -----------------------------------------------------------

static void on_fleet(void *arg, struct str json, const struct err *e)
{
    struct op_call *c = arg;
    if (e == NULL) {
        op_answer(c, 200, json);
    } else {
        op_fail(c,
                e->code == ERR_NOT_FOUND  ? PROBLEM_NOT_FOUND
                : e->code == ERR_INVALID  ? PROBLEM_INVALID_BODY
                : e->code == ERR_CONFLICT ? PROBLEM_CONFLICT
                                          : PROBLEM_STORE_FAILED,
                NULL, "%s", e->msg);
    }
}

void op_HUB_LIST(struct api *api, struct op_call *c)
{
    fleet_list(api->fleet, on_fleet, c);
}

void op_HUB_LABEL(struct api *api, struct op_call *c)
{
    fleet_label(api->fleet, json_get_text(c->params, "name"), json_get(c->params, "labels"),
                on_fleet, c);
}

void op_HUB_DRAIN(struct api *api, struct op_call *c)
{
    fleet_drain(api->fleet, json_get_text(c->params, "name"),
                !json_bool(json_get(c->params, "off"), false), on_fleet, c);
}

void op_TOKEN_ROTATE(struct api *api, struct op_call *c)
{
    struct err e = {0};
    if (api->o.host.rotate_token(api->o.host.arg, &e) < 0) {
        op_fail(c, PROBLEM_STORE_FAILED, NULL, "%s", e.msg);
        return;
    }
    op_answer(c, 200, STR("{\"rotated\":true}"));
}
