// Trust over HTTP. The work is trust/hub.c's; here are only the words of requests and answers.
//
// Giving and taking trust goes over the socket alone: the user's own hand. Models, browsers and other
// machines may look, no more.

#include "api/api_int.h"
#include "api/handlers.h"
#include "trust/hub.h"

static void answer(void *arg, int status, struct str body, const struct err *e)
{
    struct op_call *c = arg;
    if (status < 0) {
        op_fail(c,
                status == ERR_NOT_FOUND   ? PROBLEM_NOT_FOUND
                : status == ERR_TOO_LARGE ? PROBLEM_TOO_LARGE
                : status == ERR_DENIED    ? PROBLEM_FORBIDDEN
                : status == ERR_INVALID   ? PROBLEM_INVALID_BODY
                : status == ERR_CONFLICT  ? PROBLEM_CONFLICT
                                          : PROBLEM_STORE_FAILED,
                NULL, "%s", e->msg);
    } else {
        op_answer(c, 200, body);
    }
}

/// The parameter `path`; false, answered, when it is not absolute.
static bool take_path(struct op_call *c, struct str *path)
{
    *path = json_get_text(c->params, "path");
    bool fits = str_starts(*path, "/") && memchr(path->p, '\0', path->n) == NULL;
    if (!fits) {
        op_fail(c, PROBLEM_INVALID_BODY, "give the absolute path of a directory in the project",
                "'path' must be absolute");
    }
    return fits;
}

void op_TRUST_LIST(struct api *api, struct op_call *c)
{
    trust_hub_reread(api->o.trust, answer, c);
}

void op_TRUST_ADD(struct api *api, struct op_call *c)
{
    struct str path;
    if (take_path(c, &path)) {
        trust_hub_add(api->o.trust, path, json_bool(json_get(c->params, "follow"), false),
                      json_bool(json_get(c->params, "dry_run"), false), answer, c);
    }
}

void op_TRUST_REMOVE(struct api *api, struct op_call *c)
{
    struct str path;
    if (take_path(c, &path)) {
        trust_hub_remove(api->o.trust, path, answer, c);
    }
}
